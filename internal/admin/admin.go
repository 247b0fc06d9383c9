// Package admin is what the person who runs a server sees and does on the admin port.
package admin
