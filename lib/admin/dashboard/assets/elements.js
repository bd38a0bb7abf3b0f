// Elements of the page.

/** Returns the element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Makes an element. What is no property of it becomes an attribute. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
