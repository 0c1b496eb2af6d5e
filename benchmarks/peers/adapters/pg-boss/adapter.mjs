// pg-boss, with the settings of its pages "Workers" and "Constructor" (pgboss.io/api): queues with `notify`, fetches in
// batches, `burstWhenBatchFull` so that no poll waits while there are more jobs, `insert` for many jobs. A job's name is its
// queue.
//
// Finished jobs are kept (deleteAfterSeconds is 7 days by default). Jobs are marked completed after the handler returned, a
// batch at a time, so a crash loses no job. With heartbeats of 10 s, the minimum, another worker gets the jobs at the next
// check of its supervisor, here every 5 s instead of every minute. Without heartbeats it would be after 15 minutes.
import { readFileSync } from "node:fs";
import { PgBoss } from "pg-boss";
import * as peer from "../peer.mjs";

const DATABASE = process.env.BENCH_URL;
const BATCH = 10_000; // jobs per call of insert
// Jobs per fetch and number of fetchers, by kind. A batch is completed as a whole, so jobs that wait need small concurrent
// batches, and held jobs, which run for minutes, a batch each.
const SHAPES = { noop: [1000, 2], ten: [1000, 2], wait5: [25, 4], stamp: [25, 4], mixed: [25, 4], hold: [1, 10] };
const LOOK = 5; // seconds

async function connect(max, options = {}) {
  const client = { supervise: false, schedule: false, migrate: false };
  const boss = new PgBoss({ connectionString: DATABASE, max, ...client, ...options });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  const warm = () => boss.getDb().executeSql("select pg_sleep(0.05)");
  await Promise.all(Array.from({ length: max }, warm));
  return boss;
}

export function about() {
  const { version } = JSON.parse(readFileSync(new URL("node_modules/pg-boss/package.json", import.meta.url)));
  return {
    name: "pg-boss",
    version,
    language: "JavaScript",
    store: "postgresql",
    history: true,
    settings: [
      "notify and useListenNotify, burstWhenBatchFull, pollingIntervalSeconds 0.5 (the minimum)",
      "batchSize 1,000 × localConcurrency 2 for no-op jobs, 25 × 4 for jobs that wait or are timed",
      "heartbeatSeconds 10 (the minimum), superviseIntervalSeconds and monitorIntervalSeconds 5",
      "insert with 10,000 jobs per call",
    ],
    processes: 2,
    lease: 10,
    recovery: "heartbeatSeconds 10, then the next check of the supervisor",
  };
}

export async function setup() {
  const boss = await connect(1, { migrate: true });
  for (const name of Object.keys(peer.jobs)) await boss.createQueue(name, { notify: true, heartbeatSeconds: 10 });
}

export async function bulk(jobs, name) {
  const boss = await connect(1);
  const began = peer.now();
  for (const [type, from, size] of peer.batches(name, jobs, BATCH)) {
    await boss.insert(type, Array.from({ length: size }, (_, nth) => ({ data: { n: from + nth } })));
  }
  return peer.timed(jobs, began);
}

export async function single(seconds, clients, name) {
  const boss = await connect(clients);
  return peer.repeat(seconds, clients, (n) => boss.send(name, { n }));
}

export async function produce(rate, seconds, name) {
  const boss = await connect(peer.PRODUCERS);
  return peer.pace(rate, seconds, (at) => boss.send(name, peer.payloadOf(name, at)));
}

export async function hold(jobs) {
  const boss = await connect(1);
  for (let n = 0; n < jobs; n++) await boss.send("hold", { n });
}

export async function work(kind) {
  const boss = await connect(10, {
    useListenNotify: true,
    supervise: true,
    superviseIntervalSeconds: LOOK,
    monitorIntervalSeconds: LOOK,
  });
  const [batchSize, localConcurrency] = SHAPES[kind];
  const options = {
    batchSize,
    localConcurrency,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
  };
  for (const type of peer.typesOf(kind)) {
    const run = peer.jobs[type];
    await boss.work(type, options, async (batch) => {
      await Promise.all(batch.map((job) => run(job.data)));
    });
  }
  return () => boss.stop({ graceful: true, timeout: 2000 });
}

let looking;
export async function left() {
  looking ??= await connect(1);
  const { rows } = await looking.getDb().executeSql("select count(*)::int as n from pgboss.job where state < 'completed'");
  return rows[0].n;
}

export async function finished(jobs) {
  const boss = await connect(1);
  await boss.insert("noop", [{ data: { n: 0 } }]);
  // Copies of a job that pg-boss created, so that every column has a valid value.
  await boss.getDb().executeSql(`
    do $$
    declare made text;
    begin
      select string_agg(quote_ident(column_name), ', ') into made from information_schema.columns
      where table_schema = 'pgboss' and table_name = 'job' and is_generated = 'NEVER'
        and column_name not in ('id', 'state', 'started_on', 'completed_on');
      update pgboss.job set state = 'completed', started_on = now(), completed_on = now();
      execute format('insert into pgboss.job (id, state, started_on, completed_on, %1$s)
        select gen_random_uuid(), state, started_on, completed_on, %1$s from pgboss.job, generate_series(2, ${jobs})', made);
    end $$`);
}

await peer.main({ about, setup, bulk, single, produce, hold, work, left, finished });
