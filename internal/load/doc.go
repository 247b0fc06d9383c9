// Package load finds where a box breaks: it makes requests by a plan, measures what comes of them, and steers by that.
package load
