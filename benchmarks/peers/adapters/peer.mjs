// What the JavaScript adapters share: the commands, counting and printing. The protocol is that of peer.py:
//
//     about() -> object                   the name, version and settings of the queue
//     setup()                             creates its tables
//     bulk(jobs, name) -> object          enqueues many jobs at once; timed(jobs, began) returns the answer
//     single(seconds, clients, name)      enqueues one job per call: use repeat()
//     produce(rate, seconds, name)        enqueues stamp or large at a steady rate: use pace()
//     work(kind, concurrency) -> stop     resolves when the worker is ready, with a function that stops it
//     left() -> number                    counts unfinished jobs
//     finished(jobs)                      inserts finished jobs
//     hold(jobs)                          enqueues jobs that run until they are killed
//
// The job types are noop, noop0 to noop9 (the name "ten" stands for all of them), wait5, stamp, large and hold. The kind of a
// worker is the name of the jobs that it will get, or "mixed" for stamp and large.
//
// All times are CLOCK_MONOTONIC, which all processes on the machine share.
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";

const REPORT = 50; // milliseconds between two reports about jobs that ran
const STOP = 3000; // milliseconds to wait for a worker that waits for its jobs
const WARM = 1; // seconds of enqueues that are not counted: on new connections they take longer
// Concurrent calls, because consecutive calls would not reach a high rate.
export const PRODUCERS = Number(process.env.BENCH_PRODUCERS ?? 16);

export const TEN = Array.from({ length: 10 }, (_, nth) => `noop${nth}`);
const IN_A_ROW = 200; // jobs of one type, when there are ten
const LARGE = 200_000; // characters

export const now = () => Number(process.hrtime.bigint()) / 1e9;
export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const timed = (jobs, began) => ({ jobs, seconds: now() - began, began });

const say = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");

const count = { total: 0, reported: 0, at: 0, latencies: [] };

export const ran = {
  one() {
    count.total += 1;
    count.at = now();
    if (count.total === 1) report(); // a drain is measured from the first job
  },
  stamp(at) {
    if (at) count.latencies.push(Math.round((now() - at) * 1e6) / 1e3);
    ran.one();
  },
  held(n) {
    say({ held: n, at: now(), pid: process.pid });
  },
};

const noop = async () => ran.one();

// The jobs, for queues whose handlers get only the payload.
export const jobs = {
  noop,
  ...Object.fromEntries(TEN.map((name) => [name, noop])),
  wait5: async () => {
    await sleep(5);
    ran.one();
  },
  stamp: async (payload) => ran.stamp(payload.at),
  // It only keeps the worker busy, and is neither counted nor timed.
  large: async (payload) => {
    if (payload.data.length !== LARGE) throw new Error(`${payload.data.length} characters instead of ${LARGE}`);
  },
  hold: async (payload) => {
    ran.held(payload.n);
    await sleep(600_000);
  },
};

export const isNoop = (kind) => kind === "noop" || kind === "ten";

// The types of the jobs that a worker of this kind runs, for queues where a type is a queue.
export const typesOf = (kind) => ({ ten: TEN, mixed: ["stamp", "large"] })[kind] ?? [kind];

// The payload of a job that produce() enqueues. A large one does not compress.
const large = randomBytes((LARGE * 3) / 4).toString("base64");
export const payloadOf = (name, at) => (name === "stamp" ? { at } : { data: large });

function report() {
  if (count.total === count.reported) return;
  count.reported = count.total;
  // Latencies are reported as they occur, like in peer.py, so that each report has the latencies of its jobs.
  say({ ran: count.reported, at: count.at, pid: process.pid, latencies_ms: count.latencies.splice(0) });
}

// Call repeatedly, on one chain of calls per client.
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

// Call at a steady rate, passing the time of the call; in the first second 0, because on new connections calls take longer. Late
// calls are made immediately; none is skipped.
export async function pace(rate, seconds, call) {
  const began = now();
  const turns = Math.round(rate * (WARM + seconds));
  let turn = 0;
  const client = async () => {
    while (turn < turns) {
      const wait = began + turn++ / rate - now();
      if (wait > 0) await sleep(wait * 1000);
      const at = now();
      await call(at - began > WARM ? at : 0);
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, client));
  return timed(turns, began);
}

// A type, the first number and the number of jobs, for calls that enqueue several jobs of one type.
export function* batches(name, total, most) {
  const size = name === "ten" ? IN_A_ROW : most;
  for (let from = 0, nth = 0; from < total; from += size, nth++) {
    yield [name === "ten" ? TEN[nth % TEN.length] : name, from, Math.min(size, total - from)];
  }
}

async function work(adapter, kind, concurrency) {
  const stopped = new Promise((resolve) => process.once("SIGTERM", resolve));
  const stop = await adapter.work(kind, concurrency);
  const reporting = setInterval(report, REPORT);
  say({ ready: true });
  await stopped;
  await Promise.race([stop(), sleep(STOP)]);
  clearInterval(reporting);
  say({ ran: count.total, at: count.at, pid: process.pid, latencies_ms: count.latencies });
}

// Prints the reason last, where the harness looks for it; node itself would print its version last.
function failed(error) {
  console.error(error);
  console.error(String(error.message ?? error).split("\n")[0]);
  process.exit(1);
}

// Counts for each line of input, so that the count at the end of a drain does not include the start of a program.
async function watch(adapter) {
  say({ ready: true });
  for await (const _ of createInterface({ input: process.stdin })) {
    const at = now(); // counting in a large table takes a while, and the result is valid for its start
    say({ left: await adapter.left(), at });
  }
}

export async function main(adapter) {
  process.on("uncaughtException", failed);
  process.on("unhandledRejection", failed);
  const [command = "about", ...words] = process.argv.slice(2);
  const values = words.map((word) => (isNaN(word) ? word : Number(word)));
  if ((command === "bulk" && values.length < 2) || (command === "single" && values.length < 3)) values.push("noop");
  if (command === "produce" && values.length < 3) values.push("stamp");
  if (command === "work") await work(adapter, ...values);
  else if (command === "watch") await watch(adapter);
  else {
    const answer = await adapter[command](...values);
    if (command === "left") say({ left: answer });
    else if (answer !== undefined) say(answer);
  }
  process.exit(0); // pools and timers of the queue would keep the process alive
}
