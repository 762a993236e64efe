package dashboard

import (
	"net"
	"sync"
)

// limit bounds how many connections are open at once, so that a flood of them does not take the file descriptors that the
// daemon needs for its steps. What is above waits in the kernel's queue.
func limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, places: make(chan struct{}, most), done: make(chan struct{})}
}

type limited struct {
	net.Listener
	places chan struct{}
	done   chan struct{}
	once   sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, free: sync.OnceFunc(func() { <-l.places })}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// placed is a connection that holds a place.
type placed struct {
	net.Conn
	free func()
}

func (c *placed) Close() error {
	defer c.free()
	return c.Conn.Close()
}
