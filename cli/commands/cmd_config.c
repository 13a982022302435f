/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain config: prints the schema as JSON or Markdown, or a config with every value and its
 * origin. */
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"

static clt_status print_config(const args_result *r, clt_str *out)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_TRY(cmd_load_config(r, &(clt_start){0}, &config));
    return clt_config_print(config, true, out);
}

clt_status cmd_config(cmd_context *context, int argc, char **argv)
{
    bool schema = false, markdown = false, print = false;
    const args_option options[] = {
        ARGS_FLAG(
            "--schema", schema,
            "every key with type, range, default and help, as JSON (in cltrain's own form, not JSON Schema)"),
        ARGS_FLAG("--markdown", markdown, "the same as a page (docs/config.md)"),
        ARGS_FLAG("--print", print, "the CONFIG with every value and its origin, as JSON"), ARGS_END};
    const args_usage usage = ARGS_USAGE("config", "[CONFIG [section.key=value ...]]", 0, 1, options,
                                        "Prints the schema or a config.");
    args_result r;
    CLT_SCOPED(clt_str) text = {0};
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (schema + markdown + print != 1)
        CLT_FAIL(CLT_EUSAGE, "cltrain config: give one of --schema, --markdown and --print CONFIG; 'cltrain "
                             "import FOLDER --out CONFIG' writes a config for a published model");
    if (print != (r.n_operands == 1))
        CLT_FAIL(CLT_EUSAGE, print ? "cltrain config --print: name the config to print"
                                   : "cltrain config: a CONFIG belongs to --print only");
    CLT_TRY(schema     ? clt_config_print_schema(&text)
            : markdown ? clt_config_print_markdown(&text)
                       : print_config(&r, &text));
    return cmd_write_str("-", &text);
}
