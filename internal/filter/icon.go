package filter

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"weir/internal/server"
)

const (
	maxIcon     = 256 << 10 // bytes
	iconAge     = 24 * time.Hour
	iconFinders = 4 // at work at once; a site that hangs holds one of them
	maxIcons    = 20_000
)

// icons are where the icons of sources are, as far as they were looked for.
type icons struct {
	mu      sync.Mutex
	found   map[string]icon // by the URL of a source
	finding map[string]bool
}

// icon is where an icon is; "" is nowhere.
type icon struct {
	url string
	at  time.Time
}

// getIcon answers GET /admin/filters/{id}/icon with the picture that a filter's source, or its site, has, as
// far as it is at hand. Otherwise it is looked for in the background, for who asks again: a page shows many,
// and must not wait for the sites of any.
func (s *Service) getIcon(w *server.Response, r *server.Request) server.Outcome {
	f, err := s.stored(r)
	if err != nil {
		return s.refuse(w, err)
	}
	link := f.URLs[0]
	s.icons.mu.Lock()
	known := s.icons.found[link]
	s.icons.mu.Unlock()
	if known.url != "" {
		if entry, ok := s.cache.Peek(known.url); ok {
			defer entry.Release()
			if kind := pictureType(entry.Body()); kind != "" {
				w.ContentType = kind
				w.Field("Cache-Control", "private, max-age=86400")
				w.Body = append(w.Body, entry.Body()...)
				return server.Done
			}
		}
	}
	if s.noIcon(link) {
		w.Problem(http.StatusNotFound, "neither the feed nor its site has an icon")
		return server.Done
	}
	s.findIcon(link)
	w.Status = http.StatusNoContent
	w.Field("Cache-Control", "no-store")
	w.Field("Retry-After", "2")
	return server.Done
}

// noIcon says whether it is known that a source has no icon.
func (s *Service) noIcon(link string) bool {
	s.icons.mu.Lock()
	defer s.icons.mu.Unlock()
	known, ok := s.icons.found[link]
	return ok && known.url == "" && time.Since(known.at) < iconAge
}

// pictureType tells by its bytes what picture something is, "" if it is none of those that hold no scripts,
// or too large.
func pictureType(body []byte) string {
	kind := http.DetectContentType(body)
	if len(body) > maxIcon || !strings.HasPrefix(kind, "image/") {
		return ""
	}
	return kind
}

// findIcon looks for the icon of a source in the background, unless enough others are being looked for.
func (s *Service) findIcon(link string) {
	s.icons.mu.Lock()
	defer s.icons.mu.Unlock()
	if len(s.icons.finding) >= iconFinders || s.icons.finding[link] {
		return
	}
	if s.icons.finding == nil || len(s.icons.found) >= maxIcons {
		s.icons.found, s.icons.finding = make(map[string]icon), make(map[string]bool)
	}
	s.icons.finding[link] = true
	s.background.Go("icon", func(ctx context.Context) {
		at := s.iconOf(ctx, link)
		s.icons.mu.Lock()
		defer s.icons.mu.Unlock()
		delete(s.icons.finding, link)
		if ctx.Err() == nil {
			s.icons.found[link] = icon{at, time.Now()}
		}
	})
}

// iconOf returns the URL of a source's icon, fetched by then; "" if it has none.
func (s *Service) iconOf(ctx context.Context, link string) string {
	for _, candidate := range s.iconLinks(ctx, link) {
		entry, err := s.ask(ctx, candidate)
		if err != nil {
			continue
		}
		kind := pictureType(entry.Body())
		entry.Release()
		if kind != "" {
			return candidate
		}
	}
	return ""
}

// iconLinks returns where the icon of a source may be.
func (s *Service) iconLinks(ctx context.Context, link string) (links []string) {
	base, err := url.Parse(link)
	if err != nil {
		return nil
	}
	site := base
	if entry, err := s.ready(ctx, link); err == nil {
		feed, err := s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"), entry.URL)
		if err == nil {
			for _, text := range []string{feed.Icon, feed.Image} {
				if icon, err := base.Parse(text); err == nil && text != "" {
					links = append(links, icon.String())
				}
			}
			if u, err := base.Parse(feed.URL); err == nil {
				site = u
			}
		}
		entry.Release()
	}
	if entry, err := s.ready(ctx, site.String()); err == nil {
		if bytes.Contains(entry.Body()[:min(len(entry.Body()), 4096)], []byte("<")) {
			for _, f := range found(entry) {
				if f.Icon {
					links = append(links, f.URL)
				}
			}
		}
		entry.Release()
	}
	if favicon, err := site.Parse("/favicon.ico"); err == nil {
		links = append(links, favicon.String())
	}
	return links
}
