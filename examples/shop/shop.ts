// A web shop with a cache: shop.ts <port> <plain|coherent> <database file> <cache>, or shop.ts <port> rows <server of rows>
// GET /?page=0, GET /product/7, GET /product/7/edit, POST /product/7 with price=500. Several may share file and cache.
import { createServer, type IncomingMessage } from "node:http";
import { argv } from "node:process";
import { products, type Stock, type Way } from "./stock.ts";
import { rows } from "./rows.ts";

const [port, way, ...places] = argv.slice(2);
const stock: Stock = way === "rows"
  ? await rows(places[0]!)
  : products(way as Way, places[0]!, places[1]!);

async function list(page: number): Promise<string> {
  const products = await stock.page(page);
  const items = products.map(({ id, name, price }) =>
    `<li><a href="/product/${id}">${name}</a> <span id="price${id}">${price}</span>`
  );
  return `<h1>Shop</h1><ul>${items.join("\n")}</ul><a href="/?page=${page + 1}">more</a>`;
}

async function detail(id: number, isForm: boolean): Promise<string> {
  const found = await stock.product(id);
  if (found === undefined) return "<h1>No such product</h1>";
  const form =
    `<form method="post" action="/product/${id}"><input name="price"><button>Change</button></form>`;
  return `<h1>${found.name}</h1><p id="price${id}">${found.price}</p>` +
    (isForm ? form : `<a href="/product/${id}/edit">edit</a>`);
}

async function edit(id: number, request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const part of request) body += part;
  const price = Number(new URLSearchParams(body).get("price"));
  await stock.change(id, price);
  return `<p>The price is ${price}.</p><a href="/product/${id}">back</a>`;
}

const server = createServer(async (request, response) => {
  try {
    const { pathname, searchParams } = new URL(request.url!, "http://shop");
    const [, id, form] = /^\/product\/(\d+)(\/edit)?$/.exec(pathname) ?? [];
    const html = id === undefined
      ? await list(Number(searchParams.get("page") ?? 0))
      : request.method === "POST"
      ? await edit(Number(id), request)
      : await detail(Number(id), form !== undefined);
    response.setHeader("content-type", "text/html").end(`<!doctype html>${html}`);
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
// deno-lint-ignore no-console -- who started it waits for this line
server.listen(Number(port), "127.0.0.1", () => console.log("the shop is open"));
