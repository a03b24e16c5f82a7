package release

import "testing"

// TestMetricsURLs: whatever the user sets, a listener without TLS is where the probes are, and it is not added if
// another one would already have its address.
func TestMetricsURLs(t *testing.T) {
	for urls, want := range map[string]string{
		"":                                      MetricsURL,
		MetricsURL:                              MetricsURL,
		"http://localhost:2381":                 "http://localhost:2381",
		"http://0.0.0.0:2381":                   "http://0.0.0.0:2381",
		"http://[::]:2381":                      "http://[::]:2381",
		"http://10.0.0.11:2381, " + MetricsURL:  "http://10.0.0.11:2381, " + MetricsURL,
		"http://10.0.0.11:2381":                 "http://10.0.0.11:2381," + MetricsURL,
		"http://127.0.0.1:2399":                 "http://127.0.0.1:2399," + MetricsURL,
		"http://[::1]:2381":                     "http://[::1]:2381," + MetricsURL,
		"https://0.0.0.0:2382":                  "https://0.0.0.0:2382," + MetricsURL,
		"https://10.0.0.11:2381":                "https://10.0.0.11:2381," + MetricsURL,
		"https://0.0.0.0:2382,http://[::]:2381": "https://0.0.0.0:2382,http://[::]:2381",
		"odd":                                   "odd," + MetricsURL,
	} {
		got := WithMetricsURL(urls)
		if got != want {
			t.Errorf("%q becomes %q, want %q", urls, got, want)
		}
		if again := WithMetricsURL(got); again != got {
			t.Errorf("%q becomes %q the second time", got, again)
		}
	}
	for urls, want := range map[string]string{
		"http://0.0.0.0:2381":                          "",
		"https://10.0.0.11:2381":                       "",
		"https://0.0.0.0:2382":                         "",
		"https://0.0.0.0:2381":                         "takes 127.0.0.1:2381",
		"https://[::]:2381":                            "use another port",
		"http://10.0.0.11:2381,https://localhost:2381": "takes 127.0.0.1:2381",
	} {
		wantError(t, urls, ValidateExtraArgs("3.6.16", map[string]string{MetricsURLsFlag: urls}), want)
	}
}
