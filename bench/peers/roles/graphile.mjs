// graphile-worker's two roles: `worker DATABASE URL` and `producer DATABASE URL COUNT`. See measure.py for their lines.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { Pool } from "undici";

const [role, connectionString, url, count] = process.argv.slice(2);
const body = "a".repeat(100);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

async function work() {
  const target = new URL(url);
  const pool = new Pool(target.origin, { connections: 64 });
  const post = async (payload) => {
    const answer = await pool.request({ path: target.pathname, method: "POST", body: payload.body });
    await answer.body.dump();
    if (answer.statusCode >= 300) throw new Error(`status ${answer.statusCode}`);
  };
  const runner = await run({
    preset: {
      worker: {
        connectionString,
        concurrentJobs: 24,
        maxPoolSize: 25,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
      },
    },
    logger,
    taskList: { post },
  });
  console.log("ready");
  await runner.promise;
}

async function produce() {
  const tools = await makeWorkerUtils({ connectionString, maxPoolSize: 25, logger });
  await tools.migrate();
  let left = Number(count);
  const lane = async () => {
    while (left-- > 0) await tools.addJob("post", { body });
  };
  console.log(`started ${process.hrtime.bigint()}`);
  await Promise.all(Array.from({ length: 64 }, lane));
  console.log(`enqueued ${process.hrtime.bigint()}`);
  await tools.release();
}

await (role === "worker" ? work() : produce());
