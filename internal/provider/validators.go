package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// stringCheck makes a Terraform validator from a domain package's pure check.
type stringCheck struct {
	description string
	check       func(string) error
}

func (v stringCheck) Description(context.Context) string         { return v.description }
func (v stringCheck) MarkdownDescription(context.Context) string { return v.description }

func (v stringCheck) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := v.check(req.ConfigValue.ValueString()); err != nil {
		addInvalid(&resp.Diagnostics, req.Path, "Invalid "+v.description, err)
	}
}

func checked(description string, check func(string) error) validator.String {
	return stringCheck{description: description, check: check}
}

func durationValidator() validator.String {
	return checked("duration", func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = fmt.Errorf("duration %q is not positive", text)
		}
		return err
	})
}

func earlyRenewalValidator() validator.String {
	return checked("early renewal", func(text string) error {
		early, err := time.ParseDuration(text)
		if err != nil {
			return nil // durationValidator reports it
		}
		return pki.ValidateEarlyRenewal(early)
	})
}

// hostsValidator checks names and addresses for a certificate.
func hostsValidator() validator.Set {
	return setvalidator.ValueStringsAre(checked("name or address", func(host string) error {
		return pki.ValidateHosts(host)
	}))
}

func ipValidator() validator.String {
	return checked("address", host.CheckAddress)
}

// parseDuration parses a validated attribute. Null is zero.
func parseDuration(value types.String) (time.Duration, error) {
	if value.IsNull() || value.IsUnknown() {
		return 0, nil
	}
	return time.ParseDuration(value.ValueString())
}

// checkCertificate rejects text that is not a PEM certificate.
func checkCertificate(text string) error {
	_, err := pki.Inspect(text)
	return err
}
