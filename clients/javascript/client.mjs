// Tunes a JavaScript program with `baco-like serve --json`, in Node without packages:
//
//     node client.mjs baco-like serve --json ../space.json
//
// One message is one line over the pipes of the server.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const ENDED = -32004;
const LIMIT_MS = 300_000;

class Server {
  #prefix = randomUUID(); // of the ids: random, so that no other program and no later run has the same
  #number = 0;

  constructor([program, ...words]) {
    this.process = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdin.on("error", () => {}); // a server that has ended is noticed by `call`
    this.exited = once(this.process, "exit");
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  // Calls a method. Returns its result, or nothing if the run has ended.
  async call(method, params = {}) {
    const id = `${this.#prefix}-${++this.#number}`;
    this.process.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    const { error, result } = await this.#receive(id);
    if (error && error.code !== ENDED) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  async #receive(id) {
    const timer = new AbortController();
    const late = sleep(LIMIT_MS, { value: "late", done: true }, { signal: timer.signal }).catch(() => {});
    const { value, done } = await Promise.race([this.lines.next(), late]);
    timer.abort();
    if (done) throw new Error(value ? `no answer within ${LIMIT_MS} ms` : "the server has ended");
    const answer = JSON.parse(value);
    if (answer.id !== id) throw new Error(answer.error?.message ?? "an answer to another request");
    return answer;
  }

  async close() {
    this.process.stdin.end(); // the server ends with its input
    await this.exited;
  }
}

// Stands for: compile with these values, run, take the time.
function measure({ tile, share, mode, loops }) {
  const difference = (tile - 16.0) / 16.0;
  const rest = share - 0.3;
  return 1.0 + difference * difference + rest * rest + 0.1 * loops[0] + (mode === "fast" ? 0.0 : 0.5);
}

const server = new Server(process.argv.slice(2));
await server.call("hello", { version: 1 });
for (let result; (result = await server.call("suggest")); ) {
  const [{ id, config }] = result.trials;
  console.log(JSON.stringify(config));
  const value = measure(config);
  await server.call("observe", { trial: id, values: [value, value + 0.25] });
}
await server.close();
