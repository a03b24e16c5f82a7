package provider

import (
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// timeLimits sets the description of the timeouts attribute of a resource. Its library provides
// none.
func timeLimits(attribute resource.Attribute) resource.Attribute {
	nested := attribute.(resource.SingleNestedAttribute)
	nested.MarkdownDescription = "Timeout of each operation, such as `90s` or `15m`, with the time " +
		"during which it waits for its turn. Default: that of each operation. A change does not affect any machine."
	return nested
}

// queryTimeout sets the description of the timeouts attribute of a data source.
func queryTimeout(attribute datasource.Attribute) datasource.Attribute {
	nested := attribute.(datasource.SingleNestedAttribute)
	nested.MarkdownDescription = "Timeout of the queries, such as `20s`. Default: that of `read`."
	return nested
}
