// The dashboard: reads the past once, then a row a second, and draws. Everything is text from this server; it enters
// the page as text only.
import { Actions } from "./actions.js";
import { byId, element } from "./elements.js";

const SECONDS_KEPT = 3600;
const MINUTES_KEPT = 1440;
const ROWS_SHOWN = 200;
const TABLE_MS = 5000;
/** How long a search of the server waits for the next key. */
const SEARCH_MS = 300;
const PLOT_HEIGHT = 150;
const SECONDS_PER_MINUTE = 60;

/** Colours with a contrast of at least 3 on both backgrounds. */
const COLOURS = [
  "#2f7de1",
  "#c2571a",
  "#2b8a57",
  "#a05fd0",
  "#c23b62",
  "#8a7a1c",
  "#1d8a99",
  "#7d8590",
  "#9c5b3b",
];

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

const plain = (value) =>
  Math.abs(value) < 1000 ? String(+value.toPrecision(3)) : short.format(value);
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const seconds = (value) => `${plain(value)} s`;

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${+value.toPrecision(3)} ${units[unit]}`;
}

function microseconds(value) {
  if (value < 1000) return `${plain(value)} µs`;
  return value < 1e6 ? `${plain(value / 1000)} ms` : `${plain(value / 1e6)} s`;
}

/** Texts of times on an axis, of the browser's time zone. @param step Seconds between two. */
function clockTimes(_plot, times, _axis, _space, step) {
  const format = { hour: "2-digit", minute: "2-digit" };
  if (step < SECONDS_PER_MINUTE) format.second = "2-digit";
  return times.map((time) => new Date(1000 * time).toLocaleTimeString("en-GB", format));
}

/** Distances of lines behind plots of bytes. */
const BYTE_STEPS = Array.from({ length: 45 }, (_, power) => 2 ** power);

const KINDS = ["get", "set", "delete", "arithmetic", "touch", "lock", "lease", "token", "other"];

/** A line of a plot: its name, and a column or a function of columns. */
const sum = (...names) => (row) => names.reduce((all, name) => all + (row(name) ?? 0), 0);
const hitRatio = (row) => {
  const all = row("get_hits") + row("get_misses");
  return all > 0 ? row("get_hits") / all : null;
};
const refusedFills = sum("lease_badval", "strict_refused", "token_refused");

const PLOTS = [
  ["Requests per second", plain, KINDS.map((kind) => [kind, `requests_${kind}`])],
  ["Hit ratio", percent, [["hits of gets", hitRatio]]],
  ["Latency", microseconds, [["p50", "p50_us"], ["p99", "p99_us"], ["p99.9", "p999_us"]]],
  ["Memory", bytes, [["items", "bytes"], ["pages", "total_malloced"], ["limit", "limit_maxbytes"]]],
  ["Evictions per second", plain, [["evicted", "evictions"], ["expired", "reclaimed"]]],
  ["Age of what is evicted", seconds, [["since the last read", "class_evicted_time"]]],
  ["Page moves per second", plain, [["pages", "slabs_moved"]]],
  ["Connections", plain, [["open", "curr_connections"], ["new per second", "total_connections"]]],
  ["Traffic per second", bytes, [["received", "bytes_read"], ["sent", "bytes_written"]]],
  ["Waits for the mutex, time per second", microseconds, [
    ["waited", "thread_mutex_wait_us"],
    ["held", "thread_mutex_held_us"],
  ]],
  ["Leases per second", plain, [
    ["given", "lease_cnt"],
    ["filled", "lease_hit"],
    ["loads saved", "lease_wait_hint"],
    ["stale fills refused", refusedFills],
  ]],
  ["Locks", plain, [["held", "lock_curr"], ["waiting", "lock_waiting"]]],
  ["Update tokens", plain, [["out", "token_curr"], ["given per second", "token_get"]]],
  ["Age of the oldest update token", seconds, [["age", "token_oldest_age"]]],
];

/** The mean time of a step: microseconds by second, over times by second. */
const stepTime = (step) => (row) => {
  const count = row(`rows_${step}_count`);
  return count > 0 ? row(`rows_${step}_us`) / count : null;
};
const milliseconds = (value) => microseconds(1000 * value);

const ROW_TOKENS = [
  ["idle", "rows_tokens_idle"],
  ["busy", "rows_tokens_busy"],
  ["unknown", "rows_tokens_unknown"],
];

/** Plots of rows: those without a number, as of nodes at a server that has none, are left out. */
const ROW_PLOTS = [
  ["Writes of rows per second", plain, [
    ["committed", "rows_puts_committed"],
    ["refused", "rows_puts_refused"],
    ["revoked", "rows_puts_revoked"],
    ["failed", "rows_puts_failed"],
    ["unknown", "rows_puts_unknown"],
  ]],
  ["Writes in a group", plain, [["mean", (row) => {
    const groups = row("rows_put_groups");
    return groups > 0 ? row("rows_puts_committed") / groups : null;
  }]], "rows_put_groups"],
  ["Steps of a write, mean time", microseconds, [
    ["delete in nodes", stepTime("node_delete")],
    ["transaction", stepTime("database_write")],
  ], "rows_database_write_count"],
  ["Read of rows, mean time", microseconds, [
    ["database", stepTime("database_read")],
  ], "rows_database_read_count"],
  ["Reads of rows per second", plain, [
    ["cacheable", "rows_gets_cacheable"],
    ["not cacheable", "rows_gets_uncacheable"],
  ]],
  ["Update tokens of rows", plain, ROW_TOKENS],
  ["Age of the oldest token of rows", seconds, [["age", "rows_tokens_oldest_age"]]],
  ["Nodes", plain, [
    ["member", "rows_nodes_member"],
    ["silent", "rows_nodes_silent"],
    ["lost", "rows_nodes_lost"],
  ]],
  ["Epoch", plain, [["takeover", "rows_epoch"]]],
  ["Changes that clients of uget have missed", plain, [["since the start", "rows_uget_unsafe"]]],
  ["Lag of the followed log", milliseconds, [["behind", "rows_follow_lag_ms"]]],
  ["Followed log", bytes, [["not applied", "rows_follow_lag_bytes"]]],
  ["Values compared with the database, per second", plain, [
    ["right", "rows_verified_same"],
    ["behind the log", "rows_verified_lagging"],
    ["unclear", "rows_verified_unclear"],
    ["failed", "rows_verified_failed"],
    ["shed", "rows_verified_shed"],
  ]],
  ["Wrong values", plain, [
    ["stale", "rows_verified_stale"],
    ["phantom", "rows_verified_phantom"],
  ]],
  ["Membership of this node", plain, [["member", "rows_node_member"]]],
  ["Rows by this node, per second", plain, [
    ["read", "rows_node_reads"],
    ["written", "rows_node_writes"],
    ["failed", "rows_node_failures"],
  ]],
];

const TILES = [
  ["Requests per second", plain, sum(...KINDS.map((kind) => `requests_${kind}`))],
  ["Hit ratio", percent, hitRatio],
  ["Latency p99", microseconds, (row) => row("p99_us")],
  ["Items", plain, (row) => row("curr_items")],
  ["Memory of items", bytes, (row) => row("bytes")],
  ["Connections", plain, (row) => row("curr_connections")],
  ["Loads saved per second", plain, (row) => row("lease_wait_hint")],
  ["Stale fills refused per second", plain, refusedFills],
  ["Leases held", plain, (row) => row("lease_curr")],
  ["Locks held", plain, (row) => row("lock_curr")],
  ["Update tokens out", plain, sum("token_curr", ...ROW_TOKENS.map(([, column]) => column))],
  [
    "Nines of coherence, last day",
    (value) => value < 0 ? "wrong values" : plain(value),
    (row) => row("rows_verified_wrong_day") > 0 ? -1 : row("rows_verified_nines_day"),
    (value) => value < 0,
  ],
  [
    "Quarantine",
    (value) => value > 0 ? "on" : "off",
    (row) => row("quarantine") + row("rows_verified_quarantine"),
    (value) => value > 0,
  ],
];

const TABLES = [
  ["hot-keys", "Hot keys"],
  ["classes", "Classes"],
  ["connections", "Connections"],
  ["threads", "Threads"],
  ["locks", "Locks"],
  ["leases", "Leases"],
  ["tokens", "Update tokens"],
  ["users", "Users"],
  ["rows", "Rows"],
  ["row-tokens", "Tokens of rows"],
  ["nodes", "Nodes"],
];

/** The value of a line in a row of the history; null: unknown. */
function valueOf(columns, row, of) {
  const column = (name) => row[columns.get(name)] ?? null;
  const value = typeof of === "string" ? column(of) : of(column);
  return Number.isFinite(value) ? value : null;
}

class Plot {
  constructor([title, format, lines], columns) {
    this.format = format;
    this.lines = lines;
    this.columns = columns;
    this.caption = element("figcaption");
    this.place = element("div", { role: "img", "aria-label": `${title}, as a plot over time` });
    this.figure = element(
      "figure",
      {},
      element("h3", { textContent: title }),
      this.place,
      this.caption,
    );
    this.plot = null;
  }

  get width() {
    return Math.max(200, this.place.clientWidth);
  }

  draw(rows) {
    const data = [
      rows.map(([time]) => time),
      ...this.lines.map(([, of]) => rows.map((row) => valueOf(this.columns, row, of))),
    ];
    if (this.plot === null) this.plot = this.make(data);
    else this.plot.setData(data);
    const last = rows.at(-1);
    if (last === undefined) this.caption.textContent = "no data yet";
    else {this.caption.replaceChildren(...this.lines.map((line, index) =>
        this.legend(line, index, last)
      ));}
  }

  /** A line's name and last value, behind a mark of its colour and dashes. */
  legend([name, of], index, row) {
    const mark = element("span", { className: "mark", "aria-hidden": "true" });
    mark.style.borderTop = `3px ${["solid", "dashed", "dotted"][index % 3]} ${COLOURS[index]}`;
    const value = valueOf(this.columns, row, of);
    return element(
      "span",
      { className: "key" },
      mark,
      `${name} ${value === null ? "–" : this.format(value)}`,
    );
  }

  make(data) {
    const style = getComputedStyle(document.body);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--dim"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
    };
    return new uPlot(
      {
        width: this.width,
        height: PLOT_HEIGHT,
        legend: { show: false },
        // The last time on the axis is wider than what lies to its left.
        padding: [null, 30, null, null],
        cursor: { show: false },
        scales: { y: { range: (_plot, _least, most) => [0, most > 0 ? most * 1.05 : 1] } },
        axes: [{ ...axis, size: 30, space: 80, values: clockTimes }, {
          ...axis,
          size: 70,
          ...(this.format === bytes ? { incrs: BYTE_STEPS } : {}),
          values: (_plot, splits) => splits.map(this.format),
        }],
        series: [
          {},
          ...this.lines.map(([label], index) => ({
            label,
            stroke: COLOURS[index],
            width: 1.5,
            points: { show: false },
            dash: index % 3 === 1 ? [6, 3] : index % 3 === 2 ? [2, 3] : undefined,
          })),
        ],
      },
      data,
      this.place,
    );
  }

  /** Drops the drawing: the next `draw` makes it anew, in the size and colours of then. */
  forget() {
    this.plot?.destroy();
    this.plot = null;
  }
}

class Dashboard {
  constructor(past) {
    this.columns = new Map(past.columns.map((name, index) => [name, index + 1]));
    this.seconds = past.seconds;
    this.minutes = past.minutes;
    this.range = 5;
    /** The drawing that waits for the browser's next frame: rows that come together are drawn once. 0: none. */
    this.frame = 0;
    byId("version").textContent = past.version;
    const known = new Set(past.rowColumns);
    const rowPlots = ROW_PLOTS.filter(([, , [[, of]], column = of]) => known.has(column));
    this.plots = [...PLOTS, ...rowPlots].map((plot) => new Plot(plot, this.columns));
    byId("plots").replaceChildren(...this.plots.map(({ figure }) => figure));
    this.tiles = TILES.map(([name]) => {
      const value = element("dd", { textContent: "–" });
      byId("tiles").append(element("div", {}, element("dt", { textContent: name }), value));
      return value;
    });
    for (const button of document.querySelectorAll("[data-range]")) {
      button.addEventListener("click", () => this.choose(Number(button.dataset.range)));
    }
    const redraw = () => {
      for (const plot of this.plots) plot.forget();
      this.draw();
    };
    let resizing = 0;
    addEventListener("resize", () => {
      clearTimeout(resizing);
      resizing = setTimeout(redraw, 200);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.addEventListener("visibilitychange", () => this.draw());
    this.draw();
  }

  choose(range) {
    this.range = range;
    for (const button of document.querySelectorAll("[data-range]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.range) === range));
    }
    this.draw();
  }

  add(row) {
    const last = this.seconds.at(-1);
    if (last !== undefined && row[0] <= last[0]) return;
    this.seconds.push(row);
    if (this.seconds.length > SECONDS_KEPT) this.seconds.shift();
    this.addMinute(row[0]);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  /** Makes the mean of the last minute, as the server does, when a minute has passed. */
  addMinute(time) {
    const last = this.minutes.at(-1)?.[0] ?? this.seconds[0][0];
    if (time - last < SECONDS_PER_MINUTE) return;
    const rows = this.seconds.filter(([at]) => at > last);
    const means = rows[0].map((_, column) => {
      const values = rows.map((row) => row[column]).filter((value) => value !== null);
      return values.length === 0
        ? null
        : values.reduce((all, value) => all + value, 0) / values.length;
    });
    means[0] = time;
    this.minutes.push(means);
    if (this.minutes.length > MINUTES_KEPT) this.minutes.shift();
  }

  draw() {
    if (document.hidden) return;
    const rows = this.range > SECONDS_PER_MINUTE
      ? this.minutes
      : this.seconds.slice(-this.range * SECONDS_PER_MINUTE);
    for (const plot of this.plots) plot.draw(rows);
    const last = this.seconds.at(-1);
    if (last === undefined) return;
    for (const [index, [, format, of, isBad]] of TILES.entries()) {
      const value = valueOf(this.columns, last, of);
      this.tiles[index].textContent = value === null ? "–" : format(value);
      this.tiles[index].className = isBad?.(value) ? "bad" : "";
    }
  }
}

/** How much memory each class has, and how much of it its items use. */
class ClassMemory {
  constructor() {
    this.list = element("ul", { className: "bars", tabIndex: 0 });
    this.figure = element(
      "figure",
      {},
      element("h3", { textContent: "Memory by class" }),
      this.list,
      element("figcaption", {
        textContent: "chunk size: bytes of items, of the chunks in the class's pages",
      }),
    );
    byId("plots").append(this.figure);
    setInterval(() => this.load(), TABLE_MS);
    this.load();
  }

  async load() {
    if (document.hidden) return;
    // If there is no table, the status says that the server does not answer.
    const table = await fetch("/api/tables/classes").then((reply) => reply.ok ? reply.json() : null)
      .catch(() => null);
    if (table !== null) this.draw(table);
  }

  draw({ columns, rows }) {
    const all = rows.map((row) => {
      // A class without items has no number of some columns.
      const at = (name) => Number(row[columns.indexOf(name)]);
      const chunk = at("chunk_size");
      const held = chunk * (at("used_chunks") + at("free_chunks"));
      return { chunk, used: at("mem_requested"), held };
    }).filter(({ held }) => held > 0);
    const most = Math.max(...all.map(({ held }) => held), 1);
    this.list.replaceChildren(...all.map(({ chunk, used, held }) => {
      const outer = element("span", { className: "bar", "aria-hidden": "true" });
      outer.style.width = `${100 * held / most}%`;
      const inner = element("span", {});
      inner.style.width = `${100 * used / held}%`;
      outer.append(inner);
      const text = `${bytes(chunk)}: ${bytes(used)} of ${bytes(held)}`;
      return element("li", {}, element("span", { textContent: text }), outer);
    }));
    if (all.length === 0) this.list.replaceChildren(element("li", { textContent: "no items yet" }));
  }
}

class Tables {
  /** @param viewer What the user may see and do. */
  constructor({ tables, actions }) {
    /** Null: the user may not act. */
    this.actions = actions && new Actions(actions, () => this.load());
    this.shown = TABLES.filter(([name]) => tables.includes(name));
    this.table = { columns: [], rows: [], found: 0, total: 0, isCut: false };
    this.sorted = null;
    this.ascending = false;
    this.asked = 0;
    this.tabs = this.shown.map(([name, title]) => {
      const tab = element("button", {
        type: "button",
        id: `tab-${name}`,
        role: "tab",
        "aria-controls": "panel",
        textContent: title,
      });
      tab.addEventListener("click", () => this.choose(name));
      return tab;
    });
    byId("tabs").append(...this.tabs);
    byId("tabs").addEventListener("keydown", (event) => this.move(event));
    let typing = 0;
    byId("search").addEventListener("input", () => {
      if (!this.table.isCut) return this.draw();
      clearTimeout(typing);
      typing = setTimeout(() => this.load(), SEARCH_MS);
    });
    setInterval(() => this.load(), TABLE_MS);
    this.choose(this.shown[0][0]);
  }

  /** Left and right arrows go to the tab beside. */
  move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = this.shown.findIndex(([name]) => name === this.name);
    const next = (at + step + this.shown.length) % this.shown.length;
    this.choose(this.shown[next][0]);
    this.tabs[next].focus();
  }

  choose(name) {
    this.name = name;
    this.table.isCut = false;
    this.sorted = null;
    for (const [index, [each]] of this.shown.entries()) {
      this.tabs[index].setAttribute("aria-selected", String(each === name));
      this.tabs[index].tabIndex = each === name ? 0 : -1;
    }
    byId("panel").setAttribute("aria-labelledby", `tab-${name}`);
    this.load();
  }

  async load() {
    // A redraw would take the button away to which the focus returns after the confirmation.
    if (document.hidden || byId("confirm").open) return;
    const asked = ++this.asked;
    const search = this.table.isCut ? byId("search").value : "";
    let table;
    try {
      const reply = await fetch(`/api/tables/${this.name}?search=${encodeURIComponent(search)}`);
      table = reply.ok
        ? await reply.json()
        : { columns: [], rows: [], found: 0, total: 0, isCut: false, error: await reply.text() };
    } catch {
      return;
    }
    if (asked !== this.asked || byId("confirm").open) return;
    this.table = table;
    this.draw();
    // Only now it is known that the search is the server's.
    if (table.isCut && search === "" && byId("search").value !== "") this.load();
  }

  sort(column) {
    this.ascending = this.sorted === column ? !this.ascending : false;
    this.sorted = column;
    this.draw();
    byId("table").querySelector(`th:nth-child(${column + 1}) button`).focus();
  }

  get rows() {
    const text = byId("search").value.toLowerCase();
    const found = this.table.rows.filter((row) =>
      text === "" || row.some((cell) => String(cell).toLowerCase().includes(text))
    );
    const column = this.sorted;
    if (column === null) return found;
    const sign = this.ascending ? 1 : -1;
    return found.sort((a, b) =>
      sign *
      (typeof a[column] === "number" && typeof b[column] === "number"
        ? a[column] - b[column]
        : String(a[column]).localeCompare(String(b[column])))
    );
  }

  dropButton(row) {
    const cell = (name) => row[this.table.columns.indexOf(name)];
    const [key, id, age, owner] = ["key", "id", "age s", "owner"].map(cell);
    return this.actions.dropButton({ key, id, age, owner });
  }

  draw() {
    const { columns, total, isCut, error } = this.table;
    const rows = this.rows;
    const shown = rows.slice(0, ROWS_SHOWN);
    const found = isCut ? this.table.found : rows.length;
    byId("count").textContent = error ?? `${shown.length} of ${found} found, ${total} in all`;
    const hadFocus = document.activeElement?.closest("#table th")?.cellIndex;
    const label = document.activeElement?.closest("#table td button")?.getAttribute("aria-label");
    const head = columns.map((name, index) => {
      const button = element("button", { type: "button", textContent: name.replaceAll("_", " ") });
      button.addEventListener("click", () => this.sort(index));
      const order = this.sorted !== index ? "none" : this.ascending ? "ascending" : "descending";
      const className = typeof shown[0]?.[index] === "number" ? "number" : "";
      return element("th", { scope: "col", className, "aria-sort": order }, button);
    });
    const drops = this.name === "tokens" && this.actions?.canDrop;
    if (drops) head.push(element("th", { scope: "col", textContent: "action" }));
    const body = shown.map((row) =>
      element(
        "tr",
        {},
        ...row.map((cell, index) =>
          element("td", {
            className: typeof cell === "number" ? "number" : "",
            textContent: typeof cell === "number" && columns[index] !== "id"
              ? cell.toLocaleString("en")
              : cell,
          })
        ),
        ...(drops ? [element("td", {}, this.dropButton(row))] : []),
      )
    );
    byId("table").replaceChildren(
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    );
    if (hadFocus !== undefined) {
      byId("table").querySelector(`th:nth-child(${hadFocus + 1}) button`)?.focus();
    }
    if (label !== undefined) {
      byId("table").querySelector(`td button[aria-label="${CSS.escape(label)}"]`)?.focus();
    }
  }
}

/** Reads the past, then a row each second. After a break it reads the past again, with what it has missed. */
async function start() {
  const status = byId("status");
  let dashboard = null;
  const read = async (path) => {
    const reply = await fetch(path);
    if (!reply.ok) throw new Error(await reply.text());
    return await reply.json();
  };
  const load = async () => {
    const past = await read("/api/past");
    if (dashboard === null) dashboard = new Dashboard(past);
    else {
      dashboard.seconds = past.seconds;
      dashboard.minutes = past.minutes;
      dashboard.draw();
    }
  };
  let viewer;
  try {
    await load();
    viewer = await read("/api/viewer");
  } catch (error) {
    status.textContent = error.message;
    return;
  }
  new ClassMemory();
  new Tables(viewer);
  const source = new EventSource("/api/stream");
  let isBroken = false;
  source.addEventListener("open", () => {
    status.textContent = "live";
    if (isBroken) load().catch(() => {});
    isBroken = false;
  });
  source.addEventListener("error", () => {
    isBroken = true;
    status.textContent = source.readyState === EventSource.CLOSED
      ? "the server has closed the stream; reload the page"
      : "the server does not answer; trying again";
  });
  source.addEventListener("message", ({ data }) => dashboard.add(JSON.parse(data)));
}

start();
