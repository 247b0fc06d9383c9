package config

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestAChoiceTakesItsWordsOnly(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	var colour string
	Choice(f, &colour, "colour", "red", "of the roof", "red", "green", "blue")
	if colour != "red" {
		t.Errorf("without the flag it is %q", colour)
	}
	if err := f.Parse([]string{"--colour", "blue"}); err != nil || colour != "blue" {
		t.Errorf("%q, %v", colour, err)
	}
	if err := f.Parse([]string{"--colour", "pink"}); err == nil ||
		!strings.Contains(err.Error(), "must be red, green or blue") || colour != "blue" {
		t.Errorf("%q, %v", colour, err)
	}
}

func TestGroupsAreShownUnderTheirTitlesAndParsed(t *testing.T) {
	cmd := &cobra.Command{Use: "roof", Run: func(*cobra.Command, []string) {}}
	var size int
	var tiles, chimney string
	cmd.Flags().IntVar(&size, "size", 1, "of all")
	a, b := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	File(a, &tiles, "tiles", "where they are listed")
	Dir(b, &chimney, "chimney", "up", "where it goes")
	AddGroups(cmd, Group{"Tiles", a}, Group{"Chimney", b})
	Complete(cmd)
	var said strings.Builder
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SetArgs([]string{"--help"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nFlags:\n", "  --size int", "\nTiles:\n", "  --tiles file",
		"\nChimney:\n", `--chimney directory`, "(default up)"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.String())
		}
	}
	if strings.Index(said.String(), "--tiles") < strings.Index(said.String(), "Tiles:") {
		t.Errorf("flags of a group stand outside of it:\n%s", said.String())
	}
	cmd.SetArgs([]string{"--tiles", "a", "--chimney", "b", "--size", "3"})
	if err := cmd.Execute(); err != nil || tiles != "a" || chimney != "b" || size != 3 ||
		!a.Changed("tiles") {
		t.Errorf("%q, %q, %d, %v", tiles, chimney, size, err)
	}
}
