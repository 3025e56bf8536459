// Drives Google's Node client for Cloud Tasks through the scenario of tests/clients/scenario.py.
//
// Arguments: "grpc" or "rest", and what it is given as one JSON value. It prints one JSON line for each step: the step's
// name and what the client saw. Judging is the business of the Python test that runs it. This client has no batch calls
// and no CMEK calls, so those steps are left out.

import {setTimeout as pause} from 'node:timers/promises';
import {v2} from '@google-cloud/tasks';
import {credentials, status} from '@grpc/grpc-js';
import {PassThroughClient} from 'google-auth-library';

const [transport, argument] = process.argv.slice(2);
const given = JSON.parse(argument);
const address = {apiEndpoint: given.host, port: given.port, projectId: given.parent.split('/')[1]};
const client = new v2.CloudTasksClient(
  transport === 'grpc'
    ? {...address, sslCreds: credentials.createInsecure()}
    : {...address, fallback: true, protocol: 'http', authClient: new PassThroughClient()},
);
const queueName = `${given.parent}/queues/${given.queue}`;
const taskName = id => `${queueName}/tasks/${id}`;
const future = {seconds: Date.parse(given.future_time) / 1000, nanos: 0};

const say = (step, fact) => console.log(JSON.stringify({step, fact}));

// Over gRPC the message alone is in `details`; over REST `message` holds it.
const refusal = error => ({
  code: status[error.code] ?? String(error.code),
  message: typeof error.details === 'string' ? error.details : error.message,
});

async function refused(call) {
  try {
    await call;
  } catch (error) {
    return refusal(error);
  }
  return {code: 'OK', message: ''};
}

const named = (kind, value) => (typeof value === 'string' ? value : kind[value]);
const states = {1: 'RUNNING', 2: 'PAUSED', 3: 'DISABLED'};
const views = {1: 'BASIC', 2: 'FULL'};
const methods = {1: 'POST', 2: 'GET'};
const seconds = value => (value ? Number(value.seconds ?? 0) + (value.nanos ?? 0) / 1e9 : 0);

const queueFact = queue => ({
  name: queue.name,
  state: named(states, queue.state),
  rate: queue.rateLimits.maxDispatchesPerSecond,
  burst: queue.rateLimits.maxBurstSize,
  concurrent: queue.rateLimits.maxConcurrentDispatches,
  attempts: queue.retryConfig.maxAttempts,
  min_backoff: seconds(queue.retryConfig.minBackoff),
  max_backoff: seconds(queue.retryConfig.maxBackoff),
  doublings: queue.retryConfig.maxDoublings,
});

const taskFact = task => ({
  name: task.name,
  method: named(methods, task.httpRequest.httpMethod),
  url: task.httpRequest.url,
  headers: task.httpRequest.headers,
  body: Buffer.from(task.httpRequest.body ?? '').toString('base64'),
  view: named(views, task.view),
  deadline: seconds(task.dispatchDeadline),
  schedule_time: seconds(task.scheduleTime),
  dispatches: task.dispatchCount ?? 0,
  responses: task.responseCount ?? 0,
});

// A task for the handler path of the same id; without an id the server names it.
function httpTask(id, scheduleTime) {
  const task = {
    httpRequest: {
      url: `${given.handler}/${id ?? ''}`,
      httpMethod: 'POST',
      headers: {'Content-Type': 'application/x-scenario', 'X-Mixed-Case': 'preserve-me'},
      body: Buffer.from(given.body, 'base64'),
    },
  };
  if (id) task.name = taskName(id);
  if (scheduleTime) task.scheduleTime = scheduleTime;
  return {parent: queueName, task};
}

const createTask = async (id, scheduleTime) => (await client.createTask(httpTask(id, scheduleTime)))[0];
const getTask = async (id, responseView) => (await client.getTask({name: taskName(id), responseView}))[0];

// Reads a task until the server refuses, for ten seconds at most.
async function untilGone(id) {
  let last = {code: 'OK', message: ''};
  for (const end = Date.now() + 10_000; Date.now() < end && last.code === 'OK'; await pause(50)) {
    last = await refused(getTask(id));
  }
  return last;
}

async function listTasks() {
  const pages = [];
  const names = [];
  let pageToken = '';
  do {
    const request = {parent: queueName, pageSize: 2, pageToken};
    const [tasks, , answer] = await client.listTasks(request, {autoPaginate: false});
    pages.push(tasks.length);
    names.push(...tasks.map(task => task.name));
    pageToken = answer?.nextPageToken ?? '';
  } while (pageToken);
  return {pages, names};
}

async function queues() {
  const create = {parent: given.parent, queue: {name: queueName}};
  say('create_queue', queueFact((await client.createQueue(create))[0]));
  say('create_queue_again', await refused(client.createQueue(create)));
  say('get_queue', queueFact((await client.getQueue({name: queueName}))[0]));
  const names = [];
  for await (const queue of client.listQueuesAsync({parent: given.parent})) names.push(queue.name);
  say('list_queues', names);
  const [updated] = await client.updateQueue({
    queue: {
      name: queueName,
      rateLimits: {maxDispatchesPerSecond: 100, maxConcurrentDispatches: 7},
      retryConfig: {maxAttempts: 5, maxBackoff: {seconds: 1}},
    },
    updateMask: {
      paths: ['rate_limits.max_dispatches_per_second', 'retry_config.max_attempts', 'retry_config.max_backoff'],
    },
  });
  say('update_queue', queueFact(updated));
  say('missing_queue', await refused(client.getQueue({name: `${given.parent}/queues/nowhere`})));
}

async function tasks() {
  say('create_task', taskFact(await createTask('named-1', future)));
  say('create_task_again', await refused(createTask('named-1', future)));
  say('get_task_basic', taskFact(await getTask('named-1', 'BASIC')));
  say('get_task_full', taskFact(await getTask('named-1', 'FULL')));
  say('bad_task_id', await refused(createTask('not a valid id')));
  const unnamed = [];
  for (let n = 0; n < 3; n += 1) unnamed.push((await createTask(null, future)).name);
  say('create_unnamed', unnamed);
  say('list_tasks', await listTasks());
  say('missing_task', await refused(getTask('never')));
  say('run_task', taskFact((await client.runTask({name: taskName('named-1')}))[0]));
  say('run_task_finished', await untilGone('named-1'));
  say('finished_name', await refused(createTask('named-1')));
  say('deliver_task', taskFact(await createTask('plain-1')));
  say('deliver_task_finished', await untilGone('plain-1'));
  say('flaky_task', taskFact(await createTask('flaky-1')));
  say('flaky_task_finished', await untilGone('flaky-1'));
  await createTask('doomed-1', future);
  await client.deleteTask({name: taskName('doomed-1')});
  say('delete_task', await refused(getTask('doomed-1')));
  say('delete_missing_task', await refused(client.deleteTask({name: taskName('never')})));
}

const policyFact = policy => ({bindings: (policy.bindings ?? []).map(({role, members}) => ({role, members}))});

async function access() {
  const resource = queueName;
  say('get_iam_policy', policyFact((await client.getIamPolicy({resource}))[0]));
  const policy = {bindings: [{role: 'roles/cloudtasks.enqueuer', members: ['user:ada@example.com']}]};
  say('set_iam_policy', policyFact((await client.setIamPolicy({resource, policy}))[0]));
  say('get_iam_policy_again', policyFact((await client.getIamPolicy({resource}))[0]));
  const permissions = ['cloudtasks.tasks.create', 'cloudtasks.queues.get'];
  say('test_iam_permissions', (await client.testIamPermissions({resource, permissions}))[0].permissions);
}

const locationFact = place => ({
  name: place.name,
  id: place.locationId,
  region: place.labels['cloud.googleapis.com/region'],
});

async function places() {
  const found = [];
  const project = given.parent.split('/').slice(0, 2).join('/');
  for await (const place of client.listLocationsAsync({name: project})) found.push(locationFact(place));
  say('list_locations', found);
  say('get_location', locationFact((await client.getLocation({name: given.parent}))[0]));
}

async function paused() {
  say('pause_queue', queueFact((await client.pauseQueue({name: queueName}))[0]));
  say('held_task', taskFact(await createTask('held-1')));
  await access();
  await places();
  say('held_task_waits', taskFact(await getTask('held-1')));
  const called = Date.now() / 1000;
  say('resume_queue', queueFact((await client.resumeQueue({name: queueName}))[0]));
  say('resume_called', called);
  say('held_task_finished', await untilGone('held-1'));
}

async function ending() {
  const [purged] = await client.purgeQueue({name: queueName});
  say('purge_queue', {
    state: named(states, purged.state),
    purged: Boolean(purged.purgeTime),
    left: await listTasks(),
  });
  await client.deleteQueue({name: queueName});
  say('delete_queue', await refused(client.getQueue({name: queueName})));
  say('delete_queue_again', await refused(client.deleteQueue({name: queueName})));
  say('recreate_queue', await refused(client.createQueue({parent: given.parent, queue: {name: queueName}})));
}

await queues();
await tasks();
await paused();
await ending();
await client.close();
