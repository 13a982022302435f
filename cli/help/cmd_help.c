/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain help [COMMAND]: prints the list of commands, or one command's options. */
#include <stdio.h>
#include <string.h>

#include "cli/screen/cmd.h"
#include "cli/screen/other_words.h"
#include "cli/screen/terminal.h"
#include "engine/base/mem.h"

static clt_status help_unknown(int argc, char **argv)
{
    const char *names[64], *name = argv[0];
    size_t count = 0;
    CLT_SCOPED(clt_str) advice = {0};
    if (other_command(argc, argv, &advice) && !advice.failed)
        CLT_FAIL(CLT_EUSAGE, "unknown command '%s'%s", name, advice.text);
    for (const cmd_entry *entry = cmd_table; entry->name && count < 64; entry++)
        if (!(entry->flags & CMD_HIDDEN))
            names[count++] = entry->name;
    const char *near = clt_nearest_name(name, names, count);
    CLT_FAIL(CLT_EUSAGE, "unknown command '%s'%s%s%s; see 'cltrain help'", name,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

clt_status cmd_help(cmd_context *context, int argc, char **argv)
{
    bool command = argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0;
    if (command) {
        const cmd_entry *entry = cmd_find(argv[1]);
        char option[] = "--help";
        char *rest[] = {argv[1], option, NULL};
        if (!entry)
            return help_unknown(argc - 1, argv + 1);
        if (entry->run != cmd_help)
            return entry->run(context, 2, rest);
    }
    terminal_say(
        "cltrain %s: trains neural networks on any OpenCL device\n\nusage: cltrain COMMAND [options]\n\n",
        CLT_VERSION);
    for (const cmd_entry *entry = cmd_table; entry->name; entry++)
        if (!(entry->flags & CMD_HIDDEN))
            terminal_say_item(13, "  %-10s %s\n", entry->name, entry->summary);
    terminal_say(
        "\nfirst steps:\n  cltrain doctor                            is there a device?\n  cltrain demo      "
        "                        see it train\n  cltrain data fetch mnist                  data for the next "
        "line\n  cltrain train configs/mlp-mnist.json      a run of your own; add section.key=value to "
        "change the config\n\n'cltrain COMMAND --help' lists the options of a command; docs/config.md lists "
        "the keys of a config.\nEvery command takes --color auto|always|never; NO_COLOR is respected.\nexit "
        "codes: 0 ok, 1 a check failed, 2 usage or config, 3 data, 4 no device, 5 device memory, 6 "
        "numeric,\n            7 checkpoint, 8 storage, 9 communication, 10 device lost, 70 internal, 75 "
        "interrupted, resumable,\n            128 + N ended by signal N without saving (130: Ctrl-C)\n");
    return CLT_OK;
}
