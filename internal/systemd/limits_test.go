package systemd

import (
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   string // lines of the unit
		wrong  string // part of the error; "" means none
	}{
		{Limits{}, "", ""},
		{Limits{CPUQuota: "250%"}, "CPUQuota=250%\n", ""},
		{Limits{MemoryMax: "1G"}, "MemoryMax=1G\nEnvironment=GOMEMLIMIT=966367641\n", ""},
		{
			Limits{MemoryHigh: "3G", MemoryMax: "4G", CPUQuota: "200%"},
			"MemoryHigh=3G\nMemoryMax=4G\nCPUQuota=200%\nEnvironment=GOMEMLIMIT=2899102924\n", "",
		},
		{Limits{MemoryHigh: "1000"}, "MemoryHigh=1000\nEnvironment=GOMEMLIMIT=900\n", ""},
		{
			Limits{MemoryHigh: "4G", MemoryMax: "4096M"},
			"MemoryHigh=4G\nMemoryMax=4096M\nEnvironment=GOMEMLIMIT=3865470566\n",
			"",
		},
		{Limits{MemoryHigh: "5G", MemoryMax: "4G"}, "", "killed at 4G of memory, before it is slowed at 5G"},
		{Limits{MemoryMax: "4GB"}, "", "malformed amount of memory"},
		{Limits{MemoryHigh: "50%"}, "", "malformed amount of memory"},
		{Limits{MemoryMax: "0"}, "", "malformed amount of memory"},
		{Limits{MemoryMax: "1G\nUser=root"}, "", "malformed amount of memory"},
		{Limits{CPUQuota: "2"}, "", "malformed share of processors"},
		{
			Limits{MemoryMin: "10%", CPUWeight: 500, IOWeight: 1},
			"MemoryMin=10%\nCPUWeight=500\nIOWeight=1\nSlice=kubeapiserver.slice\nExecStartPre=+-/usr/bin/env systemctl " +
				"--runtime set-property kubeapiserver.slice MemoryMin=10%% CPUWeight=500 IOWeight=1\n", "",
		},
		{
			Limits{MemoryMax: "4G", MemoryMin: "4096M"},
			"MemoryMax=4G\nEnvironment=GOMEMLIMIT=3865470566\nMemoryMin=4096M\nSlice=kubeapiserver.slice\n" +
				"ExecStartPre=+-/usr/bin/env systemctl --runtime set-property kubeapiserver.slice MemoryMin=4096M\n", "",
		},
		{
			Limits{MemoryHigh: "3G", MemoryMax: "4G", MemoryMin: "4G"},
			"",
			"more memory is reserved (4G) than the unit may use",
		},
		{Limits{MemoryMin: "100%"}, "", "malformed amount of memory"},
		{Limits{MemoryMin: "1G\nUser=root"}, "", "malformed amount of memory"},
		{Limits{CPUWeight: 10001}, "", "malformed weight 10001"},
		{Limits{IOWeight: -1}, "", "malformed weight -1"},
	} {
		err := c.limits.Validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.limits, err, c.wrong)
		}
		if lines := c.limits.Lines("kube-apiserver.service"); err == nil && lines != c.want {
			t.Errorf("%+v gives %q, want %q", c.limits, lines, c.want)
		}
		if back := LimitsIn("[Service]\nType=exec\n" + c.want + "Restart=always\n"); err == nil && back != c.limits {
			t.Errorf("%q is read back as %+v, want %+v", c.want, back, c.limits)
		}
	}
}

func TestLimitsByHand(t *testing.T) {
	unit := "[Service]\nMemoryHigh=infinity\n#MemoryMax=1G\n  CPUQuota=150%\nCPUQuotaPeriodSec=1s\n" +
		"CPUWeight=0\nIOWeight=idle\nMemoryMin=infinity\nCPUWeight=20000\n"
	if got, want := LimitsIn(unit), (Limits{CPUQuota: "150%"}); got != want {
		t.Errorf("read as %+v, want %+v", got, want)
	}
}
