package admin

import (
	"context"
	"testing"

	"weir/internal/server"
	"weir/internal/webui/webuitest"
)

// served serves a dashboard that wants a password until the test ends, and returns it and its address.
func served(t *testing.T) (*Admin, string) {
	t.Helper()
	a, _ := guarded(t)
	kernel, err := server.New(server.Config{Admin: "127.0.0.1:0", AdminAccess: a.Guard})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Routes() {
		kernel.Handle(r)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- kernel.Run(ctx) }()
	go a.Run(ctx)
	t.Cleanup(func() {
		a.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return a, "http://" + kernel.AdminAddr().String()
}

func TestPeopleLogInAndOut(t *testing.T) {
	a, url := served(t)
	b := webuitest.Open(t, url, 1280, 900, "light")
	b.Go("/ui/configuration")
	b.Wait("location.pathname === '/login' && document.activeElement.id === 'secret'")
	b.Look("login")
	b.Clean()

	b.Press("wrong horse battery\r")
	b.Wait("document.getElementById('secret-error').textContent.includes('neither the password')")
	b.Axe()
	// The field is selected, so that typing begins anew. Afterwards one is where one wanted to be.
	b.Press(testPassword + "\r")
	b.Wait("location.pathname === '/ui/configuration' && document.documentElement.dataset.ready === 'yes'")
	if kept := b.Text("document.cookie + JSON.stringify(localStorage)"); kept != "weir-logged-in=1{}" {
		t.Errorf("scripts can read %s", kept)
	}

	// A session that has ended: the page asks for something, and is sent to log in.
	a.o.Access.mu.Lock()
	clear(a.o.Access.sessions)
	a.o.Access.mu.Unlock()
	a.hub.Cut() // its stream is opened again, and refused
	b.Wait("location.pathname === '/login'")
	b.Wait("document.activeElement.id === 'secret'")
	b.Press(testToken + "\r")
	b.Wait("location.pathname === '/ui/configuration' && document.documentElement.dataset.ready === 'yes'")

	b.Wait("!document.getElementById('logout').hidden")
	b.Click("#logout")
	b.Wait("location.pathname === '/login'")
	b.Go("/ui/overview")
	b.Wait("location.pathname === '/login'")
}
