package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"weir/internal/load"
)

const (
	// mostBody bounds what a client may send. A plan has its requests' body in it.
	mostBody = 1 << 20
	// checking is how long the target may take to answer before a run.
	checking = 30 * time.Second
)

// activeRun is the run that there is.
type activeRun struct {
	cancel context.CancelFunc
	runner Runner // nil while the plan is checked
}

var errBusy = errors.New("a run is going on; stop it first")

func (u *UI) getRun(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, u.live.get()) }

// postRun answers POST /api/runs: it starts the run of the plan in the body.
func (u *UI) postRun(w http.ResponseWriter, r *http.Request) {
	plan, ok := u.readPlan(w, r)
	if !ok {
		return
	}
	s, err := u.start(r.Context(), plan)
	switch {
	case errors.Is(err, errBusy):
		problem(w, http.StatusConflict, err.Error(), "")
	case err != nil:
		badPlan(w, err)
	default:
		answer(w, http.StatusCreated, s)
	}
}

// checkPlan answers POST /api/plan/check: it does all that comes before the load.
func (u *UI) checkPlan(w http.ResponseWriter, r *http.Request) {
	plan, ok := u.readPlan(w, r)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), checking)
	defer cancel()
	runner, err := u.runner(ctx, plan)
	if err != nil {
		badPlan(w, err)
		return
	}
	answer(w, http.StatusOK, struct {
		OK   bool   `json:"ok"`
		What string `json:"what"`
	}{true, runner.String()})
}

// readPlan reads the plan in a request's body, or answers what is wrong with it.
func (u *UI) readPlan(w http.ResponseWriter, r *http.Request) (load.Plan, bool) {
	text, ok := body(w, r)
	if !ok {
		return load.Plan{}, false
	}
	plan, err := load.ReadPlan(text)
	if err == nil {
		err = u.confine(&plan)
	}
	if err != nil {
		badPlan(w, err)
	}
	return plan, err == nil
}

// runner is New, with what an error says of hosts made good for a plan.
func (u *UI) runner(ctx context.Context, plan load.Plan) (Runner, error) {
	runner, err := u.o.New(ctx, plan)
	if errors.Is(err, load.ErrNotOwned) {
		err = notOwned(plan, err)
	}
	return runner, err
}

func badPlan(w http.ResponseWriter, err error) {
	problem(w, http.StatusBadRequest, err.Error(), fieldOf(err))
}

// start reserves the one place for a run, checks the plan, and lets the run go. ctx is for the checks alone.
func (u *UI) start(ctx context.Context, plan load.Plan) (status, error) {
	ctx, cancelCheck := context.WithTimeout(ctx, checking)
	defer cancelCheck()
	going, cancel := context.WithCancel(u.closing)
	defer context.AfterFunc(going, cancelCheck)() // a stop ends the checks too
	this := &activeRun{cancel: cancel}
	u.mu.Lock()
	if u.current != nil || u.closed {
		u.mu.Unlock()
		cancel()
		return status{}, errBusy
	}
	u.current = this
	u.runs.Add(1)
	u.mu.Unlock()

	before := u.live.get()
	u.live.set(func(s *status) { s.State = starting })
	runner, err := u.runner(ctx, plan)
	if err != nil {
		stopped := going.Err() != nil
		u.live.set(func(s *status) { *s = before })
		u.release(this)
		if stopped {
			err = errors.New("it was stopped before it began")
		}
		return status{}, err
	}
	now := time.Now()
	s := status{State: running, ID: newID(now), Plan: marshal(plan), What: runner.String(), Started: &now,
		Seconds: plan.Whole().Seconds(), Rate: runner.Load()}
	u.live.begin(s, runner.Points)
	u.mu.Lock()
	this.runner = runner
	u.mu.Unlock()
	go u.drive(going, this, s.ID)
	return s, nil
}

// release makes place for the next run.
func (u *UI) release(this *activeRun) {
	this.cancel()
	u.mu.Lock()
	u.current = nil
	u.mu.Unlock()
	u.runs.Done()
}

// newID is a name for a result that sorts by time.
func newID(now time.Time) string {
	var salt [2]byte
	rand.Read(salt[:]) //nolint:errcheck // never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(salt[:])
}

// drive makes the load, passes its points on, and keeps its result.
func (u *UI) drive(ctx context.Context, this *activeRun, id string) {
	defer u.release(this)
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		var next float64
		for p := range this.runner.Watch() {
			u.live.point(p)
			if p.Measured && p.At >= next { // once a second, as it costs some of the time that the load wants
				next = p.At + 1
				soFar := this.runner.Latency()
				u.live.set(func(s *status) { s.Latency = &soFar })
			}
		}
	}()
	result, err := this.runner.Do(ctx)
	<-passed

	end := status{State: over, ID: id}
	if err != nil && !errors.Is(err, context.Canceled) {
		end.Error = err.Error()
	}
	if result != nil {
		end.Reason = result.Reason
		figures := *result
		figures.Plan, figures.Trace, figures.Histogram = nil, nil, ""
		end.End = &figures
		if err := u.history.save(id, result); err != nil {
			u.o.Log.Error("a result is lost", "err", err)
			end.Error = "the result could not be kept: " + err.Error()
		} else {
			end.Result = id
		}
	}
	u.live.set(func(s *status) {
		s.State, s.Error, s.Reason, s.Result, s.End = over, end.Error, end.Reason, end.Result, end.End
	})
	u.live.historyChanged()
}

// active returns the run that makes load, or answers that there is none.
func (u *UI) active(w http.ResponseWriter) *activeRun {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == nil {
		problem(w, http.StatusConflict, "no run is going on", "")
	}
	return u.current
}

// stopRun answers DELETE /api/run and POST /api/run/stop. The result comes as an event, once the answers on
// their way are there.
func (u *UI) stopRun(w http.ResponseWriter, _ *http.Request) {
	this := u.active(w)
	if this == nil {
		return
	}
	u.live.set(func(s *status) {
		if s.State == running {
			s.State = stopping
		}
	})
	this.cancel()
	answer(w, http.StatusAccepted, u.live.get())
}

func (u *UI) putRate(w http.ResponseWriter, r *http.Request) {
	text, ok := body(w, r)
	if !ok {
		return
	}
	var wish struct {
		Rate *float64 `json:"rate"`
	}
	if err := json.Unmarshal(text, &wish); err != nil || wish.Rate == nil || *wish.Rate < 0 ||
		math.IsInf(*wish.Rate, 0) {
		problem(w, http.StatusBadRequest, `send {"rate": 5000}, requests a second`, "rate")
		return
	}
	this := u.active(w)
	if this == nil {
		return
	}
	u.mu.Lock()
	runner := this.runner
	u.mu.Unlock()
	if runner == nil {
		problem(w, http.StatusConflict, "the run has not begun yet", "")
		return
	}
	if err := runner.SetRate(r.Context(), *wish.Rate); err != nil {
		problem(w, http.StatusBadRequest, err.Error(), "rate")
		return
	}
	u.live.set(func(s *status) { s.Rate = *wish.Rate })
	answer(w, http.StatusOK, u.live.get())
}

// body reads a request's body, or answers that it cannot be had.
func body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes",
			mostBody), "")
	case err != nil:
		problem(w, http.StatusBadRequest, "the body could not be read to its end", "")
	}
	return text, err == nil
}
