// Node's own HTTP server as an origin: says on standard output how it read each request.
// Arguments: address, port, and for TLS the files of the certificate chain and its key.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const https = require("node:https");

const [address, port, chain, key] = process.argv.slice(2);

function say(facts) {
  process.stdout.write(JSON.stringify(facts) + "\n");
}

function serve(request, response) {
  let length = 0;
  request.on("data", (piece) => { length += piece.length; });
  request.on("end", () => {
    say({
      method: request.method,
      target: request.url,
      host: request.headers.host ?? "",
      length,
      trailers: request.trailers,
    });
    const body = JSON.stringify({ length, trailers: request.trailers }) + "\n";
    const chunked = request.method !== "HEAD" && request.httpVersion !== "1.0";
    const trailer = chunked ? { trailer: "x-sum" } : {};
    response.writeHead(200, { "content-type": "application/json", ...trailer });
    if (chunked) response.addTrailers({ "x-sum": String(length) });
    response.end(body);
  });
}

const server = chain
  ? https.createServer({ cert: fs.readFileSync(chain), key: fs.readFileSync(key) }, serve)
  : http.createServer(serve);
server.requestTimeout = 0;
server.on("checkExpectation", serve);
server.on("clientError", (error, socket) => {
  const cut = ["ECONNRESET", "HPE_INVALID_EOF_STATE"].includes(error.code);
  if (!cut) say({ malformed: error.code ?? String(error) });
  socket.destroy();
});
server.listen(Number(port), address);
