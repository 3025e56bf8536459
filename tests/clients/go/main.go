// Command scenario drives Google's Go clients through the scenarios of tests/clients: Cloud Tasks here through that of
// scenario.py, Cloud Scheduler in jobs.go through that of job_scenario.py.
//
// Its arguments are "tasks" or "jobs", "grpc" or "rest", and what it is given as one JSON value; it prints one JSON line
// for each step: the step's name and what the client saw. Judging is the business of the Python test that runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	cloudtasks "cloud.google.com/go/cloudtasks/apiv2"
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Given is what the test hands to every driver; each scenario has its share of it.
type Given struct {
	Host       string    `json:"host"`
	Port       int       `json:"port"`
	Parent     string    `json:"parent"`
	Queue      string    `json:"queue"`
	Handler    string    `json:"handler"`
	FutureTime time.Time `json:"future_time"`
	Body       []byte    `json:"body"`
	KmsKey     string    `json:"kms_key"`
	Topic      string    `json:"topic"`
}

// Fact is a JSON object that one step saw.
type Fact map[string]any

var (
	given  Given
	client *cloudtasks.Client
	ctx    context.Context
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(step string, fact any) {
	line := must(json.Marshal(Fact{"step": step, "fact": fact}))
	fmt.Println(string(line))
}

// The wire's names of the codes that the scenario meets; Go's own differ in case.
var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.InvalidArgument: "INVALID_ARGUMENT", codes.NotFound: "NOT_FOUND",
	codes.AlreadyExists: "ALREADY_EXISTS", codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED",
}

// Over gRPC the client's error carries a status; over REST it carries Google's error body.
func refusal(err error) Fact {
	if err == nil {
		return Fact{"code": "OK", "message": ""}
	}
	var rest *googleapi.Error
	if errors.As(err, &rest) {
		var answer struct {
			Error struct{ Status, Message string }
		}
		check(json.Unmarshal([]byte(rest.Body), &answer))
		return Fact{"code": answer.Error.Status, "message": answer.Error.Message}
	}
	answer := status.Convert(errors.Unwrap(err))
	name, known := codeNames[answer.Code()]
	if !known {
		name = answer.Code().String()
	}
	return Fact{"code": name, "message": answer.Message()}
}

func refused[T any](_ T, err error) Fact { return refusal(err) }

func queueFact(queue *cloudtaskspb.Queue) Fact {
	rate, retry := queue.GetRateLimits(), queue.GetRetryConfig()
	return Fact{
		"name": queue.GetName(), "state": queue.GetState().String(),
		"rate": rate.GetMaxDispatchesPerSecond(), "burst": rate.GetMaxBurstSize(),
		"concurrent": rate.GetMaxConcurrentDispatches(), "attempts": retry.GetMaxAttempts(),
		"min_backoff": retry.GetMinBackoff().AsDuration().Seconds(),
		"max_backoff": retry.GetMaxBackoff().AsDuration().Seconds(), "doublings": retry.GetMaxDoublings(),
	}
}

func taskFact(task *cloudtaskspb.Task) Fact {
	request := task.GetHttpRequest()
	body := request.GetBody()
	if body == nil {
		body = []byte{}
	}
	return Fact{
		"name": task.GetName(), "method": request.GetHttpMethod().String(), "url": request.GetUrl(),
		"headers": request.GetHeaders(), "body": body, "view": task.GetView().String(),
		"deadline":      task.GetDispatchDeadline().AsDuration().Seconds(),
		"schedule_time": float64(task.GetScheduleTime().AsTime().UnixMicro()) / 1e6,
		"dispatches":    task.GetDispatchCount(), "responses": task.GetResponseCount(),
	}
}

func queueName() string              { return given.Parent + "/queues/" + given.Queue }
func taskName(id string) string      { return queueName() + "/tasks/" + id }
func future() *timestamppb.Timestamp { return timestamppb.New(given.FutureTime) }

// httpTask builds a task for the handler path of the same id; id "" leaves naming to the server.
func httpTask(id string, at *timestamppb.Timestamp) *cloudtaskspb.CreateTaskRequest {
	task := &cloudtaskspb.Task{ScheduleTime: at, MessageType: &cloudtaskspb.Task_HttpRequest{
		HttpRequest: &cloudtaskspb.HttpRequest{
			Url: given.Handler + "/" + id, HttpMethod: cloudtaskspb.HttpMethod_POST, Body: given.Body,
			Headers: map[string]string{"Content-Type": "application/x-scenario", "X-Mixed-Case": "preserve-me"},
		}}}
	if id != "" {
		task.Name = taskName(id)
	}
	return &cloudtaskspb.CreateTaskRequest{Parent: queueName(), Task: task}
}

func getTask(id string, view cloudtaskspb.Task_View) (*cloudtaskspb.Task, error) {
	return client.GetTask(ctx, &cloudtaskspb.GetTaskRequest{Name: taskName(id), ResponseView: view})
}

// untilGone reads a task until the server refuses, for ten seconds at most.
func untilGone(id string) Fact {
	last := Fact{"code": "OK", "message": ""}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if last = refused(getTask(id, 0)); last["code"] != "OK" {
			break
		}
	}
	return last
}

func listTasks() Fact {
	pages, names := []int{}, []string{}
	pager := iterator.NewPager(client.ListTasks(ctx, &cloudtaskspb.ListTasksRequest{Parent: queueName()}), 2, "")
	for {
		var tasks []*cloudtaskspb.Task
		next := must(pager.NextPage(&tasks))
		pages = append(pages, len(tasks))
		for _, task := range tasks {
			names = append(names, task.GetName())
		}
		if next == "" {
			return Fact{"pages": pages, "names": names}
		}
	}
}

func queues() {
	create := &cloudtaskspb.CreateQueueRequest{Parent: given.Parent, Queue: &cloudtaskspb.Queue{Name: queueName()}}
	say("create_queue", queueFact(must(client.CreateQueue(ctx, create))))
	say("create_queue_again", refused(client.CreateQueue(ctx, create)))
	get := &cloudtaskspb.GetQueueRequest{Name: queueName()}
	say("get_queue", queueFact(must(client.GetQueue(ctx, get))))
	names := []string{}
	for queue, err := range client.ListQueues(ctx, &cloudtaskspb.ListQueuesRequest{Parent: given.Parent}).All() {
		names = append(names, must(queue, err).GetName())
	}
	say("list_queues", names)
	say("update_queue", queueFact(must(client.UpdateQueue(ctx, &cloudtaskspb.UpdateQueueRequest{
		Queue: &cloudtaskspb.Queue{
			Name:        queueName(),
			RateLimits:  &cloudtaskspb.RateLimits{MaxDispatchesPerSecond: 100, MaxConcurrentDispatches: 7},
			RetryConfig: &cloudtaskspb.RetryConfig{MaxAttempts: 5, MaxBackoff: durationpb.New(time.Second)},
		},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{
			"rate_limits.max_dispatches_per_second", "retry_config.max_attempts", "retry_config.max_backoff"}},
	}))))
	say("missing_queue", refused(client.GetQueue(ctx, &cloudtaskspb.GetQueueRequest{Name: given.Parent + "/queues/nowhere"})))
}

func tasks() {
	say("create_task", taskFact(must(client.CreateTask(ctx, httpTask("named-1", future())))))
	say("create_task_again", refused(client.CreateTask(ctx, httpTask("named-1", future()))))
	say("get_task_basic", taskFact(must(getTask("named-1", cloudtaskspb.Task_BASIC))))
	say("get_task_full", taskFact(must(getTask("named-1", cloudtaskspb.Task_FULL))))
	say("bad_task_id", refused(client.CreateTask(ctx, httpTask("not a valid id", nil))))
	unnamed := []string{}
	for range 3 {
		unnamed = append(unnamed, must(client.CreateTask(ctx, httpTask("", future()))).GetName())
	}
	say("create_unnamed", unnamed)
	say("list_tasks", listTasks())
	say("missing_task", refused(getTask("never", 0)))
	run := &cloudtaskspb.RunTaskRequest{Name: taskName("named-1")}
	say("run_task", taskFact(must(client.RunTask(ctx, run))))
	say("run_task_finished", untilGone("named-1"))
	say("finished_name", refused(client.CreateTask(ctx, httpTask("named-1", nil))))
	say("deliver_task", taskFact(must(client.CreateTask(ctx, httpTask("plain-1", nil)))))
	say("deliver_task_finished", untilGone("plain-1"))
	say("flaky_task", taskFact(must(client.CreateTask(ctx, httpTask("flaky-1", nil)))))
	say("flaky_task_finished", untilGone("flaky-1"))
	must(client.CreateTask(ctx, httpTask("doomed-1", future())))
	check(client.DeleteTask(ctx, &cloudtaskspb.DeleteTaskRequest{Name: taskName("doomed-1")}))
	say("delete_task", refused(getTask("doomed-1", 0)))
	say("delete_missing_task", refusal(client.DeleteTask(ctx, &cloudtaskspb.DeleteTaskRequest{Name: taskName("never")})))
}

func policyFact(policy *iampb.Policy) Fact {
	bindings := []Fact{}
	for _, binding := range policy.GetBindings() {
		bindings = append(bindings, Fact{"role": binding.GetRole(), "members": binding.GetMembers()})
	}
	return Fact{"bindings": bindings}
}

func access() {
	get := &iampb.GetIamPolicyRequest{Resource: queueName()}
	say("get_iam_policy", policyFact(must(client.GetIamPolicy(ctx, get))))
	say("set_iam_policy", policyFact(must(client.SetIamPolicy(ctx, &iampb.SetIamPolicyRequest{
		Resource: queueName(), Policy: &iampb.Policy{Bindings: []*iampb.Binding{
			{Role: "roles/cloudtasks.enqueuer", Members: []string{"user:ada@example.com"}}}},
	}))))
	say("get_iam_policy_again", policyFact(must(client.GetIamPolicy(ctx, get))))
	say("test_iam_permissions", must(client.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource: queueName(), Permissions: []string{"cloudtasks.tasks.create", "cloudtasks.queues.get"},
	})).GetPermissions())
}

func locationFact(place *location.Location) Fact {
	return Fact{"name": place.GetName(), "id": place.GetLocationId(), "region": place.GetLabels()["cloud.googleapis.com/region"]}
}

func places() {
	project := given.Parent[:len(given.Parent)-len("/locations/us-central1")]
	found := []Fact{}
	for place, err := range client.ListLocations(ctx, &location.ListLocationsRequest{Name: project}).All() {
		found = append(found, locationFact(must(place, err)))
	}
	say("list_locations", found)
	say("get_location", locationFact(must(client.GetLocation(ctx, &location.GetLocationRequest{Name: given.Parent}))))
}

func cmekFact(config *cloudtaskspb.CmekConfig) Fact {
	return Fact{"name": config.GetName(), "kms_key": config.GetKmsKey()}
}

func cmek() {
	name := given.Parent + "/cmekConfig"
	get := &cloudtaskspb.GetCmekConfigRequest{Name: name}
	say("get_cmek_config", cmekFact(must(client.GetCmekConfig(ctx, get))))
	say("update_cmek_config", cmekFact(must(client.UpdateCmekConfig(ctx, &cloudtaskspb.UpdateCmekConfigRequest{
		CmekConfig: &cloudtaskspb.CmekConfig{Name: name, KmsKey: given.KmsKey},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"kms_key"}},
	}))))
	say("get_cmek_config_again", cmekFact(must(client.GetCmekConfig(ctx, get))))
}

func paused() {
	pause := &cloudtaskspb.PauseQueueRequest{Name: queueName()}
	say("pause_queue", queueFact(must(client.PauseQueue(ctx, pause))))
	say("held_task", taskFact(must(client.CreateTask(ctx, httpTask("held-1", nil)))))
	access()
	places()
	cmek()
	say("held_task_waits", taskFact(must(getTask("held-1", 0))))
	called := float64(time.Now().UnixMicro()) / 1e6
	resume := &cloudtaskspb.ResumeQueueRequest{Name: queueName()}
	say("resume_queue", queueFact(must(client.ResumeQueue(ctx, resume))))
	say("resume_called", called)
	say("held_task_finished", untilGone("held-1"))
}

func batches() {
	create := &cloudtaskspb.BatchCreateTasksRequest{Parent: queueName(), Requests: []*cloudtaskspb.CreateTaskRequest{
		httpTask("batch-1", future()), httpTask("batch-2", future())}}
	operation := must(client.BatchCreateTasks(ctx, create))
	done, names := operation.Done(), []string{}
	for _, task := range must(operation.Wait(ctx)).GetTasks() {
		names = append(names, task.GetName())
	}
	say("batch_create", Fact{"done": done, "names": names})
	again := must(client.BatchCreateTasks(ctx, create))
	say("batch_create_again", refused(again.Wait(ctx)))
	remove := must(client.BatchDeleteTasks(ctx, &cloudtaskspb.BatchDeleteTasksRequest{
		Parent: queueName(), Names: []string{taskName("batch-1"), taskName("batch-2")}}))
	done = remove.Done()
	check(remove.Wait(ctx))
	say("batch_delete", Fact{"done": done, "left": listTasks()["names"]})
}

func ending() {
	purged := must(client.PurgeQueue(ctx, &cloudtaskspb.PurgeQueueRequest{Name: queueName()}))
	say("purge_queue", Fact{"state": purged.GetState().String(), "purged": purged.GetPurgeTime().IsValid(), "left": listTasks()})
	remove := &cloudtaskspb.DeleteQueueRequest{Name: queueName()}
	check(client.DeleteQueue(ctx, remove))
	say("delete_queue", refused(client.GetQueue(ctx, &cloudtaskspb.GetQueueRequest{Name: queueName()})))
	say("delete_queue_again", refusal(client.DeleteQueue(ctx, remove)))
	say("recreate_queue", refused(client.CreateQueue(ctx, &cloudtaskspb.CreateQueueRequest{
		Parent: given.Parent, Queue: &cloudtaskspb.Queue{Name: queueName()}})))
}

func connect(transport string) (*cloudtasks.Client, error) {
	if transport == "rest" {
		return cloudtasks.NewRESTClient(ctx, options(transport)...)
	}
	return cloudtasks.NewClient(ctx, options(transport)...)
}

// options point a client at the server, without a login.
func options(transport string) []option.ClientOption {
	address := fmt.Sprintf("%s:%d", given.Host, given.Port)
	if transport == "rest" {
		return []option.ClientOption{option.WithEndpoint("http://" + address), option.WithoutAuthentication()}
	}
	return []option.ClientOption{option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
}

func playTasks(transport string) {
	client = must(connect(transport))
	defer client.Close()
	queues()
	tasks()
	paused()
	batches()
	ending()
}

func main() {
	scenario, transport := os.Args[1], os.Args[2]
	check(json.Unmarshal([]byte(os.Args[3]), &given))
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = bounded
	if scenario == "jobs" {
		playJobs(transport)
	} else {
		playTasks(transport)
	}
}
