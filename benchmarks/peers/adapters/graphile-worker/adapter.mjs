// graphile-worker, with the preset of its page "Performance" (worker.graphile.org/docs/performance) and of its perfTest/:
// a local queue, completions and failures batched without delay. It deletes a job that has run: there is no history.
//
// A job is deleted after it ran, so a crash loses no job; but the jobs of a dead worker stay locked for 4 hours, and no
// setting of the free version shortens this. The larger the local queue, the more jobs are locked.
import { readFileSync } from "node:fs";
import { makeWorkerUtils, run, Logger } from "graphile-worker";
import pg from "pg";
import * as peer from "../peer.mjs";

const DATABASE = process.env.BENCH_URL;
const CONNECTIONS = 10; // per worker; its fetches and completions do not need more
const BATCH = 10_000; // jobs per call of addJobs
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

function preset(kind, concurrency) {
  const noop = peer.isNoop(kind);
  return {
    worker: {
      connectionString: DATABASE,
      logger,
      concurrentJobs: noop ? 24 : concurrency,
      maxPoolSize: CONNECTIONS,
      // "A much higher number may make sense" for extremely fast tasks; the server's time per job went from 44 to 25 µs.
      localQueue: { size: noop ? 2000 : 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
}

async function utils(connections) {
  const pool = new pg.Pool({ connectionString: DATABASE, max: connections, min: connections });
  const warm = await Promise.all(Array.from({ length: connections }, () => pool.connect()));
  for (const client of warm) client.release();
  return makeWorkerUtils({ pgPool: pool, logger });
}

export function about() {
  const { version } = JSON.parse(readFileSync(new URL("node_modules/graphile-worker/package.json", import.meta.url)));
  return {
    name: "graphile-worker",
    version,
    language: "JavaScript",
    store: "postgresql",
    history: false,
    settings: [
      "localQueue.size 2,000 for no-op jobs, 500 for others; completeJobBatchDelay 0, failJobBatchDelay 0",
      "concurrentJobs 24 for no-op jobs, as in its own test; the requested concurrency for others",
      "addJobs with 10,000 jobs per call",
    ],
    processes: 2,
    recovery: "after 4 hours",
  };
}

export async function setup() {
  await (await utils(1)).migrate();
}

export async function bulk(jobs, name) {
  const { addJobs } = await utils(1);
  const began = peer.now();
  for (const [type, from, size] of peer.batches(name, jobs, BATCH)) {
    await addJobs(Array.from({ length: size }, (_, nth) => ({ identifier: type, payload: { n: from + nth } })));
  }
  return peer.timed(jobs, began);
}

export async function single(seconds, clients, name) {
  const { addJob } = await utils(clients);
  return peer.repeat(seconds, clients, (n) => addJob(name, { n }));
}

export async function produce(rate, seconds, name) {
  const { addJob } = await utils(peer.PRODUCERS);
  return peer.pace(rate, seconds, (at) => addJob(name, peer.payloadOf(name, at)));
}

export async function hold(jobs) {
  const { addJob } = await utils(1);
  for (let n = 0; n < jobs; n++) await addJob("hold", { n });
}

export async function work(kind, concurrency) {
  const runner = await run({
    preset: preset(kind, concurrency),
    taskList: peer.jobs,
    noHandleSignals: true,
  });
  return () => runner.stop();
}

let looking;
export async function left() {
  looking ??= new pg.Pool({ connectionString: DATABASE, max: 1 });
  const { rows } = await looking.query("select count(*)::int as number from graphile_worker.jobs");
  return rows[0].number;
}

await peer.main({ about, setup, bulk, single, produce, hold, work, left });
