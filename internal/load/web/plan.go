package web

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"weir/internal/load"
	"weir/internal/webui"
)

// confine keeps a plan to what whoever started the UI allows: its hosts, its agents and its files.
func (u *UI) confine(p *load.Plan) error {
	p.Own = u.o.Own
	if err := u.ours(p); err != nil {
		return err
	}
	err := p.Files(func(member string, name *string) (err error) {
		*name, err = u.file(member, *name)
		return err
	})
	if err != nil {
		return err
	}
	if name, ok := strings.CutPrefix(p.Body, "@"); ok {
		if name, err = u.file("body", name); err != nil {
			return err
		}
		p.Body = "@" + name
	}
	return nil
}

// ours refuses what a plan wants asked elsewhere: agents are shown the token of agents, and so are those
// that the UI was started with.
func (u *UI) ours(p *load.Plan) error {
	for _, a := range p.Agents {
		if !slices.ContainsFunc(u.o.Agents, func(named string) bool { return strings.EqualFold(named, a) }) {
			return &load.FieldError{Field: "agents",
				Detail: fmt.Sprintf("%.60q is none of the agents that may be used here: %s", a, u.agents())}
		}
	}
	if p.TargetMetrics == "" {
		return nil
	}
	at, err := url.Parse(p.TargetMetrics)
	if err != nil {
		return &load.FieldError{Field: "target_metrics",
			Detail: fmt.Sprintf("%.60q is no URL; metrics of weir are at /metrics of its --admin port",
				p.TargetMetrics)}
	}
	own := slices.ContainsFunc(u.o.Own, func(o string) bool {
		return strings.EqualFold(o, at.Host) || strings.EqualFold(strings.Trim(o, "[]"), at.Hostname())
	})
	if !own && !webui.LoopbackHost(at.Host) {
		return &load.FieldError{Field: "target_metrics",
			Detail: fmt.Sprintf("%.60q is elsewhere; if it is yours to ask, start weir load ui with "+
				"--i-own-this-target and its host", at.Host)}
	}
	return nil
}

// notOwned is the error of a plan whose load would go elsewhere: it is the UI that is told which hosts are
// one's own.
func notOwned(p load.Plan, err error) error {
	field := fieldOf(err)
	switch {
	case field != "":
	case p.URL != "":
		field = "url"
	default:
		field = "requests"
	}
	return &load.FieldError{Field: field, Detail: strings.Replace(err.Error(), "say --i-own",
		"start weir load ui with --i-own", 1)}
}

func (u *UI) agents() string {
	if len(u.o.Agents) == 0 {
		return "start weir load ui with --agents and their addresses"
	}
	return strings.Join(u.o.Agents, ", ") + "; weir load ui was started with these as --agents"
}

// file returns the path of the file that a field of a plan names.
func (u *UI) file(field, name string) (string, error) {
	if name == "" && field != "body" {
		return "", nil
	}
	if u.o.Files == "" {
		return "", &load.FieldError{Field: field,
			Detail: "to use files here, start weir load ui with --files and the folder that they are in"}
	}
	if rel, err := filepath.Rel(u.o.Files, name); err == nil {
		name = rel // as results have it
	}
	if !filepath.IsLocal(name) {
		return "", &load.FieldError{Field: field,
			Detail: fmt.Sprintf("%.60q must be the name of a file in the folder of --files", name)}
	}
	return filepath.Join(u.o.Files, name), nil
}

var flagName = regexp.MustCompile(`--([a-z0-9][a-z0-9-]*)`)

// fieldOf returns the field that an error is about, "" if it does not say: errors of load name a flag.
func fieldOf(err error) string {
	var own *load.FieldError
	if errors.As(err, &own) {
		return own.Field
	}
	for _, m := range flagName.FindAllStringSubmatch(err.Error(), -1) {
		if f, ok := load.FieldOfFlag(m[1]); ok && f.Group != "" && f.Name != "no_check" {
			return f.Name
		}
	}
	return ""
}
