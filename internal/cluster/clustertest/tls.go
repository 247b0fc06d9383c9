package clustertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are the files of a cluster with TLS, in PEM. The nodes take only clients that show a
// certificate of the same authority, as Cert is.
type Certificates struct {
	CA, Cert, Key string
	config        *tls.Config
}

// newCertificates makes an authority in a directory, and the one certificate that nodes and clients show.
func newCertificates(dir string) (*Certificates, error) {
	c := &Certificates{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"),
		Key: filepath.Join(dir, "key.pem")}
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	}
	authority, node := template(1, "the authority"), template(2, "a node")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	node.KeyUsage = x509.KeyUsageDigitalSignature
	node.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	node.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, signer.Public(), signer)
	if err != nil {
		return nil, err
	}
	shown, err := x509.CreateCertificate(rand.Reader, node, authority, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	write := func(path, kind string, content []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), write(c.CA, "CERTIFICATE", signed),
		write(c.Cert, "CERTIFICATE", shown), write(c.Key, "PRIVATE KEY", private)); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	c.config = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair},
		ServerName: "127.0.0.1"}
	if text, err := os.ReadFile(c.CA); err != nil || !c.config.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.Join(errors.New("the authority cannot be read"), err)
	}
	return c, nil
}
