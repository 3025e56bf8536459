// BullMQ's two roles: `worker REDIS URL` and `producer REDIS URL COUNT`. See measure.py for the lines they print.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { Pool } from "undici";

const [role, redis, url, count] = process.argv.slice(2);
const { hostname: host, port } = new URL(redis);
// maxRetriesPerRequest null is what BullMQ requires of a worker's connection.
const connection = new Redis({ host, port: Number(port), maxRetriesPerRequest: null });
const body = "a".repeat(100);

async function work() {
  const target = new URL(url);
  const pool = new Pool(target.origin, { connections: 64 });
  const post = async (job) => {
    const answer = await pool.request({ path: target.pathname, method: "POST", body: job.data.body });
    await answer.body.dump();
    if (answer.statusCode >= 300) throw new Error(`status ${answer.statusCode}`);
  };
  const worker = new Worker("bench", post, {
    connection,
    concurrency: 100,
    removeOnComplete: { count: 0 },
    removeOnFail: { count: 0 },
  });
  worker.on("error", (error) => console.error(error));
  await worker.waitUntilReady();
  console.log("ready");
}

async function produce() {
  const queue = new Queue("bench", {
    connection,
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  });
  await queue.waitUntilReady();
  let left = Number(count);
  const lane = async () => {
    while (left-- > 0) await queue.add("post", { body });
  };
  console.log(`started ${process.hrtime.bigint()}`);
  await Promise.all(Array.from({ length: 64 }, lane));
  console.log(`enqueued ${process.hrtime.bigint()}`);
  await queue.close();
  connection.disconnect();
}

await (role === "worker" ? work() : produce());
