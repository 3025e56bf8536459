// Drives Google's Node client for Cloud Scheduler through the scenario of tests/clients/job_scenario.py.
//
// Arguments: "grpc" or "rest", and what it is given as one JSON value. It prints one JSON line for each step: the step's
// name and what the client saw. Judging is the business of the Python test that runs it.

import {setTimeout as pause} from 'node:timers/promises';
import scheduler from '@google-cloud/scheduler';
import {credentials, status} from '@grpc/grpc-js';
import {PassThroughClient} from 'google-auth-library';

const [transport, argument] = process.argv.slice(2);
const given = JSON.parse(argument);
const {parent} = given;
const address = {apiEndpoint: given.host, port: given.port, projectId: parent.split('/')[1]};
const client = new scheduler.v1.CloudSchedulerClient(
  transport === 'grpc'
    ? {...address, sslCreds: credentials.createInsecure()}
    : {...address, fallback: true, protocol: 'http', authClient: new PassThroughClient()},
);
const jobName = id => `${parent}/jobs/${id}`;
const body = Buffer.from(given.body, 'base64');
const yearly = '0 0 1 1 *';
const internal = 13;

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
const states = {1: 'ENABLED', 2: 'PAUSED', 3: 'DISABLED', 4: 'UPDATE_FAILED'};
const methods = {1: 'POST', 2: 'GET', 3: 'HEAD', 4: 'PUT', 5: 'DELETE'};
const seconds = value => (value ? Number(value.seconds ?? 0) + (value.nanos ?? 0) / 1e9 : 0);
const base64 = value => Buffer.from(value ?? '').toString('base64');

function targetFact(job) {
  if (job.pubsubTarget) {
    const {topicName: topic, data, attributes} = job.pubsubTarget;
    return {topic, data: base64(data), attributes};
  }
  const request = job.httpTarget ?? job.appEngineHttpTarget;
  const fact = {
    method: named(methods, request.httpMethod),
    headers: request.headers,
    body: base64(request.body),
  };
  if (job.httpTarget) return {...fact, uri: request.uri};
  const {service, version, instance, host} = request.appEngineRouting;
  return {...fact, relative_uri: request.relativeUri, routing: {service, version, instance: instance ?? '', host}};
}

const jobFact = job => ({
  name: job.name,
  description: job.description,
  schedule: job.schedule,
  time_zone: job.timeZone,
  state: named(states, job.state),
  status: job.status.code,
  deadline: seconds(job.attemptDeadline),
  retry: [
    job.retryConfig.retryCount,
    seconds(job.retryConfig.maxRetryDuration),
    seconds(job.retryConfig.minBackoffDuration),
    seconds(job.retryConfig.maxBackoffDuration),
    job.retryConfig.maxDoublings,
  ],
  target: targetFact(job),
  schedule_time: seconds(job.scheduleTime),
  attempted: Boolean(job.lastAttemptTime),
  user_update_time: seconds(job.userUpdateTime),
});

// A job that only posts to the handler path of its id, every New Year.
const plain = (id, changes) => ({
  name: jobName(id),
  schedule: yearly,
  httpTarget: {uri: `${given.handler}/${id}`},
  ...changes,
});

const retryConfig = {
  retryCount: 2,
  minBackoffDuration: {nanos: 100_000_000},
  maxBackoffDuration: {seconds: 1},
  maxDoublings: 3,
};

const full = () => ({
  name: jobName('full-1'),
  description: 'Every New Year, übergroß',
  schedule: yearly,
  timeZone: 'America/New_York',
  attemptDeadline: {seconds: 30},
  retryConfig,
  httpTarget: {
    uri: `${given.handler}/full-1`,
    httpMethod: 'POST',
    headers: {
      'X-Mixed-Case': 'preserve-me',
      'Content-Type': 'application/x-scenario',
      'User-Agent': 'mine',
      'X-CloudScheduler': 'mine',
    },
    body,
  },
});

const createJob = async job => (await client.createJob({parent, job}))[0];
const getJob = async id => (await client.getJob({name: jobName(id)}))[0];
const runJob = async id => (await client.runJob({name: jobName(id)}))[0];

// Reads a job until its status has the code, for ten seconds at most.
async function until(id, code) {
  let job = await getJob(id);
  for (const end = Date.now() + 10_000; job.status.code !== code && Date.now() < end; ) {
    await pause(50);
    job = await getJob(id);
  }
  return jobFact(job);
}

async function create() {
  say('create_job', jobFact(await createJob(full())));
  say('create_job_again', await refused(createJob(full())));
  say('get_job', jobFact(await getJob('full-1')));
  say('bad_schedule', await refused(createJob(plain('bad', {schedule: '* * * * * *'}))));
  say('bad_zone', await refused(createJob(plain('bad', {timeZone: 'utc+8'}))));
  say('bad_name', await refused(createJob(plain('not a valid id'))));
  say('create_unnamed', (await createJob(plain('unnamed', {name: ''}))).name);
  const appEngineHttpTarget = {
    httpMethod: 'PUT',
    appEngineRouting: {service: 'worker', version: 'v1'},
    relativeUri: '/work?a=1',
    headers: {'X-Kind': 'app-engine', 'X-AppEngine-Cron': 'true'},
    body,
  };
  say('create_app_engine', jobFact(await createJob({name: jobName('app-engine-1'), schedule: yearly, appEngineHttpTarget})));
  const pubsubTarget = {topicName: given.topic, data: body, attributes: {kind: 'pub/sub', ü: 'é'}};
  say('create_pubsub', jobFact(await createJob({name: jobName('pubsub-1'), schedule: yearly, pubsubTarget})));
  const pages = [];
  const names = [];
  let pageToken = '';
  do {
    const request = {parent, pageSize: 2, pageToken};
    const [jobs, , answer] = await client.listJobs(request, {autoPaginate: false});
    pages.push(jobs.length);
    names.push(...jobs.map(job => job.name));
    pageToken = answer?.nextPageToken ?? '';
  } while (pageToken);
  say('list_jobs', {pages, names});
  say('missing_job', await refused(getJob('never')));
}

async function run() {
  say('run_job', jobFact(await runJob('full-1')));
  say('run_job_finished', await until('full-1', 0));
  say('flaky_job', jobFact(await createJob(plain('flaky-1', {retryConfig}))));
  await runJob('flaky-1');
  say('flaky_job_finished', await until('flaky-1', 0));
  say('failing_job', jobFact(await createJob(plain('failing-1'))));
  await runJob('failing-1');
  say('failing_job_finished', await until('failing-1', internal));
  say('run_missing', await refused(runJob('never')));
}

async function update() {
  const change = plain('full-1', {
    description: 'Changed',
    timeZone: 'Asia/Bangkok',
    httpTarget: {uri: `${given.handler}/full-1`, headers: {'X-New': '1'}},
    retryConfig: {maxDoublings: 4, retryCount: 5},
  });
  const paths = ['description', 'retry_config.max_doublings', 'http_target.headers'];
  say('update_job', jobFact((await client.updateJob({job: change, updateMask: {paths}}))[0]));
  say('bad_mask', await refused(client.updateJob({job: change, updateMask: {paths: ['nowhere']}})));
  say('replace_job', jobFact((await client.updateJob({job: plain('full-1')}))[0]));
  say('get_replaced', jobFact(await getJob('full-1')));
  say('update_missing', await refused(client.updateJob({job: plain('never')})));
}

async function paused() {
  const name = jobName('full-1');
  say('pause_job', jobFact((await client.pauseJob({name}))[0]));
  say('pause_job_again', await refused(client.pauseJob({name})));
  say('run_paused', jobFact(await runJob('full-1')));
  say('run_paused_finished', await until('full-1', 0));
  say('resume_job', jobFact((await client.resumeJob({name}))[0]));
  say('resume_job_again', await refused(client.resumeJob({name})));
}

const locationFact = place => ({
  name: place.name,
  id: place.locationId,
  region: place.labels['cloud.googleapis.com/region'],
});

async function places() {
  const found = [];
  const project = parent.split('/').slice(0, 2).join('/');
  for await (const place of client.listLocationsAsync({name: project})) found.push(locationFact(place));
  say('list_locations', found);
  say('get_location', locationFact((await client.getLocation({name: parent}))[0]));
}

async function remove() {
  const name = jobName('full-1');
  await client.deleteJob({name});
  say('delete_job', await refused(getJob('full-1')));
  say('delete_job_again', await refused(client.deleteJob({name})));
  say('recreate_job', jobFact(await createJob(full())));
  await client.deleteJob({name});
}

await create();
await run();
await update();
await paused();
await places();
await remove();
await client.close();
