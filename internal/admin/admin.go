// Package admin is what the person who runs a server sees and does on the admin port: a dashboard, and the
// JSON routes it is made of, which programs use as well.
//
// It knows the kernel's interfaces only. A service that is a server.Pager brings pages of its own, one that
// is server.Tunable settings. A page is a fragment of HTML in one frame and a module that fills it from JSON
// routes; nothing that changes is written as HTML. What happens is told by server-sent events, GET
// /admin/events: once a second how the server is, and whatever else pages listen to.
package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"weir/internal/admin/history"
	"weir/internal/config"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/webui"
)

//go:embed static
var static embed.FS

//go:embed frame.html
var frame string

//go:embed login.html
var loginHTML string

// Options say what an Admin is about.
type Options struct {
	Services []server.Service
	// Settings are the kernel's that may change while it serves, SettingsFile is where they are kept, and
	// those of the services, when they were changed; "" is nowhere.
	Settings     []config.Setting
	SettingsFile string
	// Kernel, Metrics and Version are what the overview is made of.
	Kernel  Kernel
	Metrics *metrics.Registry
	Version string
	// History is where its figures are kept; the Admin closes it.
	History *history.History
	// Access says who may use the admin port; nil is everybody who reaches it.
	Access *Access
	// Log is the server's log.
	Log *slog.Logger
}

// Admin is the dashboard of one server.
type Admin struct {
	o      Options
	assets *webui.Assets
	pages  map[string]*webui.File // rendered, by name
	hub    *webui.Hub

	settings *Settings
	log      *Log

	loginHTML *webui.File
	sampler   *sampler
}

// ownPages returns the pages that belong to no service: those before and those after the services'.
func ownPages() (before, after []webui.Page) {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	page := func(name, title string) webui.Page { return webui.Page{Name: name, Title: title, Files: files} }
	return []webui.Page{page("overview", "Overview")},
		[]webui.Page{page("configuration", "Configuration"), page("errors", "Errors & log")}
}

// New returns the dashboard of services. Close ends it.
func New(o Options) (*Admin, error) {
	a := &Admin{o: o, pages: map[string]*webui.File{}, sampler: newSampler(o)}
	a.hub = webui.NewHub(func() any { return a.sampler.get() }, server.WriteProblem)
	_, a.log = Keep(o.Log)
	a.log.Listen(a.hub.Send)
	a.settings = openSettings(o)
	a.settings.notify = func(names []string) { a.hub.Send("setting", map[string][]string{"names": names}) }
	before, after := ownPages()
	pages, sets := before, []fs.FS{static}
	for _, s := range o.Services {
		if p, ok := s.(server.Pager); ok {
			for _, page := range p.Pages() {
				pages, sets = append(pages, page), append(sets, page.Files)
			}
		}
	}
	pages = append(pages, after...)
	a.assets = webui.NewAssets("/ui/assets/", nil, sets...)
	a.loginHTML = webui.NewFile("login.html", []byte(a.assets.Expand(loginHTML)))
	for _, p := range pages {
		text, err := a.render(p, pages)
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", p.Name, err)
		}
		a.pages[p.Name] = webui.NewFile(p.Name+".html", text)
	}
	return a, nil
}

// render puts a page into the frame.
func (a *Admin) render(p webui.Page, pages []webui.Page) ([]byte, error) {
	fragment, err := fs.ReadFile(p.Files, p.Name+".html")
	if err != nil {
		return nil, err
	}
	var menu, style strings.Builder
	for _, other := range pages {
		current := ""
		if other.Name == p.Name {
			current = ` aria-current="page"`
		}
		fmt.Fprintf(&menu, "<a href=\"/ui/%s\"%s>%s</a>\n", html.EscapeString(other.Name), current,
			html.EscapeString(other.Title))
	}
	if name := p.Name + ".css"; a.assets.Has(name) {
		fmt.Fprintf(&style, "<link rel=\"stylesheet\" href=\"%s\">", a.assets.Path(name))
	}
	return []byte(strings.NewReplacer("{title}", html.EscapeString(p.Title), "{menu}", menu.String(),
		"{style}", style.String(), "{module}", a.assets.Path(p.Name+".js"), "{content}",
		string(fragment)).Replace(a.assets.Expand(frame))), nil
}

// Routes are those of the dashboard.
func (a *Admin) Routes() []server.Route {
	return slices.Concat(a.settings.routes(), a.log.routes(), []server.Route{
		{Pattern: "GET /", Handler: home, Admin: true},
		{Pattern: "GET /ui/assets/{name...}", Stream: a.assets, Admin: true},
		{Pattern: "GET /ui/{page}", Stream: http.HandlerFunc(a.page), Admin: true},
		{Pattern: "GET /login", Stream: http.HandlerFunc(a.loginPage), Admin: true},
		{Pattern: "POST /admin/session", Stream: http.HandlerFunc(a.login), Admin: true},
		{Pattern: "DELETE /admin/session", Stream: http.HandlerFunc(a.logout), Admin: true},
		{Pattern: "GET /admin/overview", Handler: a.getOverview, Admin: true},
		{Pattern: "GET /admin/history", Handler: a.getHistory, Admin: true},
		{Pattern: "GET /admin/events", Stream: a.hub, Admin: true},
	})
}

// Close ends the streams of events.
func (a *Admin) Close() { a.hub.Close() }

// home leads people to the first page.
func home(w *server.Response, r *server.Request) server.Outcome {
	if !bytes.Contains(r.Header("Accept"), []byte("text/html")) {
		w.Problem(http.StatusNotFound, server.NothingOnAdmin)
		return server.Done
	}
	w.Status = http.StatusSeeOther
	w.Field("Location", "/ui/overview")
	return server.Done
}

// page answers GET /ui/{page}.
func (a *Admin) page(w http.ResponseWriter, r *http.Request) {
	page, ok := a.pages[strings.TrimPrefix(r.URL.Path, "/ui/")]
	if !ok {
		server.WriteProblem(w, http.StatusNotFound, "there is no such page; / leads to the first")
		return
	}
	w.Header().Set("Cache-Control", "private, no-store")
	page.ServeHTTP(w, r)
}
