package provider

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Functions have no optional attributes in a typed object, so those with many settings take any
// object and decode it here.

// errUnknown means that a part of the argument is not known yet.
var errUnknown = errors.New("not known yet")

// objectOf returns the attributes of an argument, without those that are null.
func objectOf(argument attr.Value) (map[string]attr.Value, error) {
	object, ok := argument.(types.Object)
	switch {
	case !ok || object.IsNull():
		return nil, errors.New("the argument is not an object")
	case object.IsUnknown():
		return nil, errUnknown
	}
	values := map[string]attr.Value{}
	for name, value := range object.Attributes() {
		if value = underlying(value); value != nil && !value.IsNull() {
			values[name] = value
		}
	}
	return values, nil
}

// underlying returns the value that a dynamic one has. One whose type is not known yet stays.
func underlying(value attr.Value) attr.Value {
	if dynamic, ok := value.(types.Dynamic); ok && !dynamic.IsUnknown() {
		return dynamic.UnderlyingValue()
	}
	return value
}

// eachText calls a function for a text, or for each in a collection of texts.
func eachText(value attr.Value, use func(string) error) error {
	if value.IsUnknown() {
		return errUnknown
	}
	switch v := value.(type) {
	case types.Dynamic:
		return eachText(v.UnderlyingValue(), use)
	case types.String:
		if v.IsNull() {
			return errors.New("it contains null")
		}
		return use(v.ValueString())
	case types.Tuple:
		return eachOf(v.Elements(), use)
	case types.List:
		return eachOf(v.Elements(), use)
	case types.Set:
		return eachOf(v.Elements(), use)
	case types.Map:
		return eachOf(sortedValues(v.Elements()), use)
	case types.Object:
		return eachOf(sortedValues(v.Attributes()), use)
	}
	return errors.New("it is neither a string nor a collection of strings")
}

func eachOf(values []attr.Value, use func(string) error) error {
	for _, value := range values {
		if err := eachText(value, use); err != nil {
			return err
		}
	}
	return nil
}

func sortedValues(byName map[string]attr.Value) []attr.Value {
	var values []attr.Value
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		values = append(values, byName[name])
	}
	return values
}

// positiveOf returns a whole number from 1 to most.
func positiveOf(value attr.Value, most int64) (int, error) {
	number, err := numberOf(value)
	if err != nil {
		return 0, err
	}
	n, _ := number.Int64()
	if !number.IsInt() || n < 1 || n > most {
		return 0, fmt.Errorf("it is no whole number from 1 to %d", most)
	}
	return int(n), nil
}

// durationOf returns a positive duration.
func durationOf(value attr.Value) (time.Duration, error) {
	text, err := textOf(value)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("duration %q is not positive", text)
	}
	return d, err
}

// textOf returns a single text.
func textOf(value attr.Value) (string, error) {
	text, ok := value.(types.String)
	switch {
	case value.IsUnknown():
		return "", errUnknown
	case !ok:
		return "", errors.New("it is not a string")
	}
	return text.ValueString(), nil
}

func boolOf(value attr.Value) (bool, error) {
	truth, ok := value.(types.Bool)
	switch {
	case value.IsUnknown():
		return false, errUnknown
	case !ok:
		return false, errors.New("it is neither true nor false")
	}
	return truth.ValueBool(), nil
}

// textMapOf returns the texts of a map or object, by name.
func textMapOf(value attr.Value) (map[string]string, error) {
	if value.IsUnknown() {
		return nil, errUnknown
	}
	var byName map[string]attr.Value
	switch v := value.(type) {
	case types.Map:
		byName = v.Elements()
	case types.Object:
		byName = v.Attributes()
	default:
		return nil, errors.New("it is not a map of strings")
	}
	texts := map[string]string{}
	for name, value := range byName {
		value = underlying(value)
		if value == nil || value.IsNull() {
			return nil, fmt.Errorf("%q is null", name)
		}
		text, err := textOf(value)
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

// addressMapOf returns the addresses of machines, by name.
func addressMapOf(value attr.Value) (map[string]netip.Addr, error) {
	texts, err := textMapOf(value)
	if err != nil {
		return nil, err
	}
	addresses := map[string]netip.Addr{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		address, err := netip.ParseAddr(texts[name])
		if err != nil {
			return nil, err
		}
		addresses[name] = address.Unmap()
	}
	return addresses, nil
}

// factorOf returns a number that multiplies something.
func factorOf(value attr.Value) (float64, error) {
	number, err := numberOf(value)
	if err != nil {
		return 0, err
	}
	factor, _ := number.Float64()
	if factor <= 0 || factor > 100 {
		return 0, errors.New("it is no number above 0, and at most 100")
	}
	return factor, nil
}

func numberOf(value attr.Value) (*big.Float, error) {
	number, ok := value.(types.Number)
	switch {
	case value.IsUnknown():
		return nil, errUnknown
	case !ok:
		return nil, errors.New("it is not a number")
	}
	return number.ValueBigFloat(), nil
}
