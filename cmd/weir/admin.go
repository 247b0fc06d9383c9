package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/internal/admin"
	"weir/internal/disk"
)

func newAdmin() *cobra.Command {
	cmd := &cobra.Command{Use: "admin", Short: "Prepare who may use the admin port"}
	cmd.AddCommand(&cobra.Command{
		Use:   "password FILE",
		Short: "Write the file that --admin-password-file names",
		Long: `Password asks for a password, and writes its argon2id hash to FILE, for
--admin-password-file. The password itself is kept nowhere. Where there is no terminal it is the first line
of standard input. A server that runs takes a new one at its next start.`,
		Example: `  weir admin password /etc/weir/admin.password
  weir serve --admin :8081 --admin-password-file /etc/weir/admin.password`,
		Args: exactly(1, "the file to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			hash, err := admin.HashPassword(password)
			if err != nil {
				return err
			}
			return disk.WriteFileAtomic(args[0], []byte(hash+"\n"), 0o600)
		},
	})
	return cmd
}

// readPassword asks twice at a terminal, without an echo, and else reads a line.
func readPassword(in io.Reader, ask io.Writer) (string, error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		lines := bufio.NewScanner(in)
		lines.Scan()
		return lines.Text(), lines.Err()
	}
	var typed [2]string
	for i, question := range []string{"Password: ", "Again: "} {
		fmt.Fprint(ask, question)
		text, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(ask)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		typed[i] = string(text)
	}
	if typed[0] != typed[1] {
		return "", errors.New("these are two different passwords")
	}
	return typed[0], nil
}
