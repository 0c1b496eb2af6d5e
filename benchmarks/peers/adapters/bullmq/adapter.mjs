// BullMQ, with the settings of its guide (docs.bullmq.io): concurrency per worker, addBulk for many jobs, and completed jobs
// removed ("Auto-removal of jobs"), which keeps Redis small. A job's name is its queue.
//
// A job is in the active list, under a lock that is renewed, until its handler returns: a crash of a worker loses no job.
// Another worker finds it after the lock has expired, at its next check for stalled jobs. Both are 30 s by default and 5 s
// here, which requires renewing the locks every 2.5 s. What a crash of the server loses depends on appendfsync, everysec by
// default.
import { readFileSync } from "node:fs";
import { Queue, Worker } from "bullmq";
import * as peer from "../peer.mjs";

const place = process.env.BENCH_REDIS ? new URL(process.env.BENCH_REDIS) : { pathname: "/0" };
const connection = { host: place.hostname, port: Number(place.port), db: Number(place.pathname.slice(1)) };
const NAMES = Object.keys(peer.jobs);
const BATCH = 5_000; // jobs per call of addBulk
const LOCK = 5_000; // milliseconds

async function connect(name) {
  const queue = new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  return queue;
}

const connects = (name, clients) => Promise.all(Array.from({ length: clients }, () => connect(name)));

export function about() {
  const { version } = JSON.parse(readFileSync(new URL("node_modules/bullmq/package.json", import.meta.url)));
  return {
    name: "bullmq",
    version,
    language: "JavaScript",
    store: "redis",
    history: false,
    settings: [
      "concurrency 100",
      "removeOnComplete true (by default finished jobs are kept)",
      "lockDuration and stalledInterval 5 s instead of 30 s",
      "addBulk with 5,000 jobs per call",
    ],
    processes: 2,
    lease: 5,
    recovery: "lockDuration 5 s, then the next check for stalled jobs, every 5 s",
  };
}

export function setup() {}

export async function bulk(jobs, name) {
  const types = peer.typesOf(name);
  const queues = Object.fromEntries(await Promise.all(types.map(async (type) => [type, await connect(type)])));
  const began = peer.now();
  for (const [type, from, size] of peer.batches(name, jobs, BATCH)) {
    await queues[type].addBulk(Array.from({ length: size }, (_, nth) => ({ name: type, data: { n: from + nth } })));
  }
  return peer.timed(jobs, began);
}

export async function single(seconds, clients, name) {
  const queues = await connects(name, clients);
  return peer.repeat(seconds, clients, async (n) => {
    const queue = queues.pop();
    await queue.add(name, { n });
    queues.push(queue);
  });
}

export async function produce(rate, seconds, name) {
  const queues = await connects(name, peer.PRODUCERS);
  return peer.pace(rate, seconds, async (at) => {
    const queue = queues.pop();
    await queue.add(name, peer.payloadOf(name, at));
    queues.push(queue);
  });
}

export async function hold(jobs) {
  const queue = await connect("hold");
  for (let n = 0; n < jobs; n++) await queue.add("hold", { n });
}

export async function work(kind, concurrency) {
  const start = async (type) => {
    const run = peer.jobs[type];
    const options = { connection, concurrency, lockDuration: LOCK, stalledInterval: LOCK };
    const worker = new Worker(type, (job) => run(job.data), options);
    worker.on("error", (error) => console.error(error.message));
    await worker.waitUntilReady();
    return worker;
  };
  const workers = await Promise.all(peer.typesOf(kind).map(start));
  return () => Promise.all(workers.map((worker) => worker.close()));
}

let looking;
export async function left() {
  looking ??= await Promise.all(NAMES.map(connect));
  const counts = await Promise.all(
    looking.map((queue) => queue.getJobCountByTypes("wait", "active", "delayed", "prioritized", "paused")),
  );
  return counts.reduce((sum, count) => sum + count);
}

await peer.main({ about, setup, bulk, single, produce, hold, work, left });
