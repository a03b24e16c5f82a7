package review

import (
	"encoding/json"
	"errors"
	"fmt"
)

// errShape is the error for values that do not match the provider's schema. It quotes none of
// them.
var errShape = errors.New("its values do not match the schema of this version of the provider")

// visible returns value without the parts that marks declares sensitive. Marks have the shape
// of the value, with true in place of a sensitive part (Terraform's JSON output format,
// "before_sensitive"). Marks of any other shape hide the whole value.
func visible(value, marks any) any {
	switch marks := marks.(type) {
	case nil:
		return value
	case bool:
		if marks {
			return nil
		}
		return value
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		kept := map[string]any{}
		for name, child := range object {
			if shown := visible(child, marks[name]); shown != nil {
				kept[name] = shown
			}
		}
		return kept
	case []any:
		list, ok := value.([]any)
		if !ok {
			return nil
		}
		var kept []any
		for i, child := range list {
			var mark any
			if i < len(marks) {
				mark = marks[i]
			}
			if shown := visible(child, mark); shown != nil {
				kept = append(kept, shown)
			}
		}
		return kept
	}
	return nil
}

// decode reads the visible part of an object, and only the attributes that the fields of T
// name. Nothing else of a plan is ever shown.
func decode[T any](address string, value, marks any) (T, error) {
	var decoded T
	shown := visible(value, marks)
	if shown == nil {
		return decoded, nil
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return decoded, fmt.Errorf("read %s: %w", address, errShape)
	}
	if err := json.Unmarshal(text, &decoded); err != nil {
		return decoded, fmt.Errorf("read %s: %w", address, errShape) // the error's own text may quote a value
	}
	return decoded, nil
}

// attributes returns the attributes of an object by name. Other values have none.
func attributes(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}
