package main

import (
	"time"

	scheduler "cloud.google.com/go/scheduler/apiv1"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	yearly   = "0 0 1 1 *"
	internal = 13
)

var jobClient *scheduler.CloudSchedulerClient

func jobName(id string) string { return given.Parent + "/jobs/" + id }

func bytesOf(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

func headersOf(value map[string]string) map[string]string {
	if value == nil {
		return map[string]string{}
	}
	return value
}

func targetFact(job *schedulerpb.Job) Fact {
	if target := job.GetPubsubTarget(); target != nil {
		return Fact{"topic": target.GetTopicName(), "data": bytesOf(target.GetData()), "attributes": target.GetAttributes()}
	}
	if target := job.GetHttpTarget(); target != nil {
		return Fact{"uri": target.GetUri(), "method": target.GetHttpMethod().String(),
			"headers": headersOf(target.GetHeaders()), "body": bytesOf(target.GetBody())}
	}
	target := job.GetAppEngineHttpTarget()
	routing := target.GetAppEngineRouting()
	return Fact{"relative_uri": target.GetRelativeUri(), "method": target.GetHttpMethod().String(),
		"headers": headersOf(target.GetHeaders()), "body": bytesOf(target.GetBody()),
		"routing": Fact{"service": routing.GetService(), "version": routing.GetVersion(),
			"instance": routing.GetInstance(), "host": routing.GetHost()}}
}

func jobFact(job *schedulerpb.Job) Fact {
	retry := job.GetRetryConfig()
	return Fact{
		"name": job.GetName(), "description": job.GetDescription(), "schedule": job.GetSchedule(),
		"time_zone": job.GetTimeZone(), "state": job.GetState().String(), "status": job.Status.Code,
		"deadline": job.GetAttemptDeadline().AsDuration().Seconds(),
		"retry": []float64{float64(retry.GetRetryCount()), retry.GetMaxRetryDuration().AsDuration().Seconds(),
			retry.GetMinBackoffDuration().AsDuration().Seconds(), retry.GetMaxBackoffDuration().AsDuration().Seconds(),
			float64(retry.GetMaxDoublings())},
		"target":           targetFact(job),
		"schedule_time":    float64(job.GetScheduleTime().AsTime().UnixMicro()) / 1e6,
		"attempted":        job.GetLastAttemptTime() != nil,
		"user_update_time": float64(job.GetUserUpdateTime().AsTime().UnixMicro()) / 1e6,
	}
}

func httpTarget(id string) *schedulerpb.Job_HttpTarget {
	return &schedulerpb.Job_HttpTarget{HttpTarget: &schedulerpb.HttpTarget{Uri: given.Handler + "/" + id}}
}

// plainJob only posts to the handler path of its id, every New Year.
func plainJob(id string) *schedulerpb.Job {
	return &schedulerpb.Job{Name: jobName(id), Schedule: yearly, Target: httpTarget(id)}
}

func retryConfig() *schedulerpb.RetryConfig {
	return &schedulerpb.RetryConfig{RetryCount: 2, MinBackoffDuration: durationpb.New(100 * time.Millisecond),
		MaxBackoffDuration: durationpb.New(time.Second), MaxDoublings: 3}
}

func fullJob() *schedulerpb.Job {
	return &schedulerpb.Job{
		Name: jobName("full-1"), Description: "Every New Year, übergroß", Schedule: yearly, TimeZone: "America/New_York",
		AttemptDeadline: durationpb.New(30 * time.Second), RetryConfig: retryConfig(),
		Target: &schedulerpb.Job_HttpTarget{HttpTarget: &schedulerpb.HttpTarget{
			Uri: given.Handler + "/full-1", HttpMethod: schedulerpb.HttpMethod_POST, Body: given.Body,
			Headers: map[string]string{"X-Mixed-Case": "preserve-me", "Content-Type": "application/x-scenario",
				"User-Agent": "mine", "X-CloudScheduler": "mine"},
		}},
	}
}

func createJob(job *schedulerpb.Job) (*schedulerpb.Job, error) {
	return jobClient.CreateJob(ctx, &schedulerpb.CreateJobRequest{Parent: given.Parent, Job: job})
}

func getJob(id string) (*schedulerpb.Job, error) {
	return jobClient.GetJob(ctx, &schedulerpb.GetJobRequest{Name: jobName(id)})
}

func runJob(id string) (*schedulerpb.Job, error) {
	return jobClient.RunJob(ctx, &schedulerpb.RunJobRequest{Name: jobName(id)})
}

// untilStatus reads a job until its status has the code, for ten seconds at most.
func untilStatus(id string, code int32) Fact {
	job := must(getJob(id))
	for end := time.Now().Add(10 * time.Second); job.Status.Code != code && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		job = must(getJob(id))
	}
	return jobFact(job)
}

func createJobs() {
	say("create_job", jobFact(must(createJob(fullJob()))))
	say("create_job_again", refused(createJob(fullJob())))
	say("get_job", jobFact(must(getJob("full-1"))))
	bad := plainJob("bad")
	bad.Schedule = "* * * * * *"
	say("bad_schedule", refused(createJob(bad)))
	bad = plainJob("bad")
	bad.TimeZone = "utc+8"
	say("bad_zone", refused(createJob(bad)))
	say("bad_name", refused(createJob(plainJob("not a valid id"))))
	unnamed := plainJob("unnamed")
	unnamed.Name = ""
	say("create_unnamed", must(createJob(unnamed)).GetName())
	say("create_app_engine", jobFact(must(createJob(&schedulerpb.Job{
		Name: jobName("app-engine-1"), Schedule: yearly,
		Target: &schedulerpb.Job_AppEngineHttpTarget{AppEngineHttpTarget: &schedulerpb.AppEngineHttpTarget{
			HttpMethod: schedulerpb.HttpMethod_PUT, RelativeUri: "/work?a=1", Body: given.Body,
			AppEngineRouting: &schedulerpb.AppEngineRouting{Service: "worker", Version: "v1"},
			Headers:          map[string]string{"X-Kind": "app-engine", "X-AppEngine-Cron": "true"},
		}},
	}))))
	say("create_pubsub", jobFact(must(createJob(&schedulerpb.Job{
		Name: jobName("pubsub-1"), Schedule: yearly,
		Target: &schedulerpb.Job_PubsubTarget{PubsubTarget: &schedulerpb.PubsubTarget{
			TopicName: given.Topic, Data: given.Body, Attributes: map[string]string{"kind": "pub/sub", "ü": "é"},
		}},
	}))))
	say("list_jobs", listJobs())
	say("missing_job", refused(getJob("never")))
}

func listJobs() Fact {
	pages, names := []int{}, []string{}
	pager := iterator.NewPager(jobClient.ListJobs(ctx, &schedulerpb.ListJobsRequest{Parent: given.Parent}), 2, "")
	for {
		var jobs []*schedulerpb.Job
		next := must(pager.NextPage(&jobs))
		pages = append(pages, len(jobs))
		for _, job := range jobs {
			names = append(names, job.GetName())
		}
		if next == "" {
			return Fact{"pages": pages, "names": names}
		}
	}
}

func runJobs() {
	say("run_job", jobFact(must(runJob("full-1"))))
	say("run_job_finished", untilStatus("full-1", 0))
	flaky := plainJob("flaky-1")
	flaky.RetryConfig = retryConfig()
	say("flaky_job", jobFact(must(createJob(flaky))))
	must(runJob("flaky-1"))
	say("flaky_job_finished", untilStatus("flaky-1", 0))
	say("failing_job", jobFact(must(createJob(plainJob("failing-1")))))
	must(runJob("failing-1"))
	say("failing_job_finished", untilStatus("failing-1", internal))
	say("run_missing", refused(runJob("never")))
}

func updateJobs() {
	update := func(job *schedulerpb.Job, paths ...string) (*schedulerpb.Job, error) {
		request := &schedulerpb.UpdateJobRequest{Job: job}
		if len(paths) > 0 {
			request.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
		}
		return jobClient.UpdateJob(ctx, request)
	}
	change := plainJob("full-1")
	change.Description, change.TimeZone = "Changed", "Asia/Bangkok"
	change.GetHttpTarget().Headers = map[string]string{"X-New": "1"}
	change.RetryConfig = &schedulerpb.RetryConfig{MaxDoublings: 4, RetryCount: 5}
	say("update_job", jobFact(must(update(change, "description", "retry_config.max_doublings", "http_target.headers"))))
	say("bad_mask", refused(update(change, "nowhere")))
	say("replace_job", jobFact(must(update(plainJob("full-1")))))
	say("get_replaced", jobFact(must(getJob("full-1"))))
	say("update_missing", refused(update(plainJob("never"))))
}

func pauseJobs() {
	pause := &schedulerpb.PauseJobRequest{Name: jobName("full-1")}
	say("pause_job", jobFact(must(jobClient.PauseJob(ctx, pause))))
	say("pause_job_again", refused(jobClient.PauseJob(ctx, pause)))
	say("run_paused", jobFact(must(runJob("full-1"))))
	say("run_paused_finished", untilStatus("full-1", 0))
	resume := &schedulerpb.ResumeJobRequest{Name: jobName("full-1")}
	say("resume_job", jobFact(must(jobClient.ResumeJob(ctx, resume))))
	say("resume_job_again", refused(jobClient.ResumeJob(ctx, resume)))
}

func jobPlaces() {
	project := given.Parent[:len(given.Parent)-len("/locations/us-central1")]
	found := []Fact{}
	for place, err := range jobClient.ListLocations(ctx, &location.ListLocationsRequest{Name: project}).All() {
		found = append(found, locationFact(must(place, err)))
	}
	say("list_locations", found)
	say("get_location", locationFact(must(jobClient.GetLocation(ctx, &location.GetLocationRequest{Name: given.Parent}))))
}

func deleteJobs() {
	remove := &schedulerpb.DeleteJobRequest{Name: jobName("full-1")}
	check(jobClient.DeleteJob(ctx, remove))
	say("delete_job", refused(getJob("full-1")))
	say("delete_job_again", refusal(jobClient.DeleteJob(ctx, remove)))
	say("recreate_job", jobFact(must(createJob(fullJob()))))
	check(jobClient.DeleteJob(ctx, remove))
}

func connectJobs(transport string) (*scheduler.CloudSchedulerClient, error) {
	if transport == "rest" {
		return scheduler.NewCloudSchedulerRESTClient(ctx, options(transport)...)
	}
	return scheduler.NewCloudSchedulerClient(ctx, options(transport)...)
}

func playJobs(transport string) {
	jobClient = must(connectJobs(transport))
	defer jobClient.Close()
	createJobs()
	runJobs()
	updateJobs()
	pauseJobs()
	jobPlaces()
	deleteJobs()
}
