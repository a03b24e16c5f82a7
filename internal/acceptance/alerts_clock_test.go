package acceptance

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// aheadBy is how far the clock of the NTP server of these tests is ahead.
const aheadBy = 5 * time.Second

// clock lets chrony on a machine follow a server whose clock is ahead. chrony does not set the clock, which all lab
// machines share.
func (a alarms) clock(t *testing.T) {
	t.Helper()
	cause := time.Now()
	serveWrongTime(t)
	a.on(t, "cp1", `systemctl stop chrony 2>/dev/null || true
rm -f /var/lib/chrony/chrony.drift # written when it stops
gateway=$(ip -o -4 address show to 10.97.0.0/24 scope global | sed 's/.* inet \([0-9.]*\)\.[0-9]*\/.*/\1.1/;q')
echo "server $gateway iburst minpoll 0 maxpoll 0" >/run/chrony-test.conf
systemd-run --quiet --unit=chrony-test chronyd -x -d -f /run/chrony-test.conf`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		tracking := a.on(t, "cp1", "chronyc -c -n tracking || true")
		if tracking != "" && !strings.Contains(tracking, "Not synchronised") {
			t.Logf("chronyc tracking: %s", tracking)
			break
		}
		if time.Now().After(end) {
			t.Fatalf("chrony does not follow its server: %s", tracking)
		}
	}
	a.on(t, "cp1", "systemctl start etcd-facts.service kube-facts.service")
	a.p.expectAlerts(t, cause, 4*time.Minute, "KubeClockOffset cp1")
	a.on(t, "cp1", "systemctl stop chrony-test; rm /run/chrony-test.conf; systemctl start etcd-facts.service "+
		"kube-facts.service")
}

// serveWrongTime is a fake NTP server (RFC 5905) in the network of the lab, because a real one has the clock of this
// computer.
func serveWrongTime(t *testing.T) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: 123})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		request := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDP(request)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && n >= 48 {
				_, _ = conn.WriteToUDP(wrongTime(request[:48], time.Now().Add(aheadBy)), from)
			}
		}
	}()
}

// wrongTime returns the answer to a request of an NTP client at a time.
func wrongTime(request []byte, now time.Time) []byte {
	const server, version, primary, sinceEpoch = 4, 4, 1, 2208988800 // seconds from 1900 to 1970
	answer := make([]byte, 48)
	answer[0], answer[1], answer[2], answer[3] = version<<3|server, primary, request[2], 0xec
	copy(answer[12:], "TEST")
	stamp := func(at int, when time.Time) {
		binary.BigEndian.PutUint32(answer[at:], uint32(when.Unix()+sinceEpoch))
		binary.BigEndian.PutUint32(answer[at+4:], uint32(int64(when.Nanosecond())<<32/1e9))
	}
	stamp(16, now.Add(-time.Second)) // when the clock was set
	copy(answer[24:], request[40:48])
	stamp(32, now)
	stamp(40, now)
	return answer
}
