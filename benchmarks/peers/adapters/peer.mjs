// What the adapters in JavaScript share: the commands, the counting and the printing. The same protocol as peer.py:
//
//     about() -> object                   who it is, and with which settings it runs
//     setup()                             makes its tables
//     bulk(jobs, name) -> object          many at once; timed(jobs, began) makes the answer
//     single(seconds, clients, name)      one call at a time: repeat() does the rest
//     produce(rate, seconds)              at a steady rate: pace()
//     work(kind, concurrency) -> stop     resolves when it is ready, with a function that stops it
//     left() -> number, finished(jobs), hold(jobs)
//
// All times are CLOCK_MONOTONIC, which every process on the machine reads alike.
import { createInterface } from "node:readline";

const TELL = 50; // milliseconds between two lines about jobs that ran
const STOP = 3000; // milliseconds until a worker that waits for its jobs is left behind
const WARM = 1; // seconds of single enqueues that are not counted
export const PRODUCERS = 16; // calls under way at once, where one after the other would not reach the rate

export const now = () => Number(process.hrtime.bigint()) / 1e9;
export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const timed = (jobs, began) => ({ jobs, seconds: now() - began, began });

const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");

const count = { total: 0, told: 0, at: 0, latencies: [] };

export const ran = {
  one() {
    count.total += 1;
    count.at = now();
    if (count.total === 1) tell(); // a drain counts from the first job
  },
  stamp(at) {
    count.latencies.push(Math.round((now() - at) * 1e6) / 1e3);
    ran.one();
  },
  held(n) {
    say({ held: n, at: now(), pid: process.pid });
  },
};

// The four jobs, for peers whose handlers get the payload alone.
export const jobs = {
  noop: async () => ran.one(),
  wait5: async () => {
    await sleep(5);
    ran.one();
  },
  stamp: async (payload) => ran.stamp(payload.at),
  hold: async (payload) => {
    ran.held(payload.n);
    await sleep(600_000);
  },
};

function tell() {
  if (count.total === count.told) return;
  count.told = count.total;
  // Latencies are told as they come, as by peer.py: what was told before a moment belongs to before it.
  say({ ran: count.told, at: count.at, pid: process.pid, latencies_ms: count.latencies.splice(0) });
}

// Call it again and again, on as many chains of calls as there are clients.
export async function repeat(seconds, clients, call) {
  const began = now() + WARM;
  let made = 0;
  let done = 0;
  const client = async () => {
    for (let at = now(); at < began + seconds; at = now()) {
      await call(made);
      made += 1;
      if (at >= began) done += 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { ...timed(done, began), made };
}

// Call it at a steady rate, with the time of the call. Late calls are made at once, and none is left out.
export async function pace(rate, seconds, call) {
  const began = now();
  const turns = Math.round(rate * seconds);
  let turn = 0;
  const client = async () => {
    while (turn < turns) {
      const wait = began + turn++ / rate - now();
      if (wait > 0) await sleep(wait * 1000);
      await call(now());
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, client));
  return timed(turns, began);
}

// Slices of a list, for peers that take many jobs in one call but not any number.
export function* slices(total, size) {
  for (let from = 0; from < total; from += size) yield [from, Math.min(size, total - from)];
}

async function work(adapter, kind, concurrency) {
  const stopped = new Promise((resolve) => process.once("SIGTERM", resolve));
  const stop = await adapter.work(kind, concurrency);
  const telling = setInterval(tell, TELL);
  say({ ready: true });
  await stopped;
  await Promise.race([stop(), sleep(STOP)]);
  clearInterval(telling);
  say({ ran: count.total, at: count.at, pid: process.pid, latencies_ms: count.latencies });
}

// The reason last, where the harness looks for it; node would end with its version.
function failed(error) {
  console.error(error);
  console.error(String(error.message ?? error).split("\n")[0]);
  process.exit(1);
}

// Looks whenever a line comes, so that the look at the end of a drain does not wait for a program to start.
async function watch(adapter) {
  say({ ready: true });
  for await (const _ of createInterface({ input: process.stdin })) {
    const at = now(); // a look at a large table takes a while, and says what was so when it began
    say({ left: await adapter.left(), at });
  }
}

export async function main(adapter) {
  process.on("uncaughtException", failed);
  process.on("unhandledRejection", failed);
  const [command = "about", ...words] = process.argv.slice(2);
  const values = words.map((word) => (isNaN(word) ? word : Number(word)));
  if ((command === "bulk" && values.length < 2) || (command === "single" && values.length < 3)) values.push("noop");
  if (command === "work") await work(adapter, ...values);
  else if (command === "watch") await watch(adapter);
  else {
    const answer = await adapter[command](...values);
    if (command === "left") say({ left: answer });
    else if (answer !== undefined) say(answer);
  }
  process.exit(0); // pools and timers of a peer would keep it
}
