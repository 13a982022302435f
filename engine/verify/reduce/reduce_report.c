/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes report.md: one page for people who know the driver but not cltrain. */
#include "engine/verify/reduce/reduce_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "engine/files/fileio.h"

#define MOST_PASSED 12 /* smaller cases that the page lists */

void clt_slots_text(const clt_slots *slots, clt_str *out)
{
    for (int i = 0; i < slots->count; i++)
        clt_str_printf(out, "%s%s=%" PRId64, i > 0 ? " " : "", slots->slot[i].name, slots->slot[i].value);
}

static const char *what_is_wrong(clt_verdict verdict)
{
    switch (verdict) {
    case VERDICT_CRASH:
        return "The driver ends the process that uses it.";
    case VERDICT_HANG:
        return "The driver does not come back from a command.";
    case VERDICT_ERROR:
        return "The driver refuses a call that is valid.";
    default:
        return "A kernel computes a wrong number.";
    }
}

/* Lists the numbers of a passing case that are smaller than in `now`; false if any number is larger. */
static bool smaller(const clt_slots *passed, const clt_slots *now, clt_str *out)
{
    bool some = false;
    for (int i = 0; i < passed->count; i++)
        if (passed->slot[i].value > now->slot[i].value)
            return false;
    for (int i = 0; i < passed->count; i++) {
        if (passed->slot[i].value == now->slot[i].value)
            continue;
        clt_str_printf(out, "%s%s=%" PRId64, some ? " " : "* ", passed->slot[i].name, passed->slot[i].value);
        some = true;
    }
    if (some)
        clt_str_append(out, "\n");
    return some;
}

static void put_case(const clt_reduction *r, clt_str *out)
{
    int listed = 0;
    if (r->now.count == 0) {
        clt_str_append(out, "\nThe check has one size, which was not changed.\n");
        return;
    }
    clt_str_append(
        out, "\n## The case\n\nThe check fails with these sizes (x0 is the first input, dim0 its outermost "
             "dimension; parts that\ncan be left out are 0 or 1):\n\n    ");
    clt_slots_text(&r->now, out);
    clt_str_append(out, "\n\nOriginally they were:\n\n    ");
    clt_slots_text(&r->first, out);
    clt_str_append(out, "\n");
    for (int i = 0; i < r->n_passed && listed < MOST_PASSED; i++) {
        CLT_SCOPED(clt_str) line = {0};
        if (!smaller(&r->passed[i], &r->now, &line) || line.failed)
            continue;
        if (listed++ == 0)
            clt_str_append(out, "\nIt passes with one of these changes:\n\n");
        clt_str_append(out, line.text);
    }
}

clt_status clt_reduce_report(const clt_reduce_options *options, const clt_reduction *r)
{
    CLT_SCOPED(clt_str) out = {0};
    CLT_FREED char *path = NULL;
    struct utsname os = {.sysname = ""};
    if (uname(&os) != 0)
        snprintf(os.sysname, sizeof os.sysname, "unknown");
    clt_str_printf(&out, "# %s\n\n", what_is_wrong(r->failure.verdict));
    clt_str_printf(&out, "%s\n", r->failure.reason);
    if (r->failure.verdict == VERDICT_WRONG)
        clt_str_append(&out, "\nThe reference is computed in double precision on the host.\n");
    clt_str_printf(
        &out,
        "\n| | |\n| --- | --- |\n| device | %s |\n| driver | %s |\n| OpenCL | %s |\n| platform | %s |\n",
        r->device.name, r->device.driver, r->device.version, r->device.platform);
    clt_str_printf(
        &out, "| operating system | %s %s %s |\n| cltrain | %s |\n| check | `%s`, seed %" PRIu64 " |\n",
        os.sysname, os.release, os.machine, CLT_VERSION, options->check.pattern, options->check.seed);
    clt_str_append(
        &out, "\n## How to see it\n\nIn this folder, with OpenCL's headers and loader and nothing else:\n\n"
              "    cc repro.c -lOpenCL -o repro\n    ./repro\n\n");
    clt_str_append(&out, "The program builds `kernel.cl` with the options of `options.txt`, fills the "
                         "buffers as they were when the\n"
                         "check failed, runs the commands, and prints the first wrong number. It ends with 0 "
                         "if the result is\n"
                         "right, with 1 if it is wrong and with 2 if it could not run. `./repro NAME` uses "
                         "another device: NAME is\n"
                         "a part of its name or of its platform's name. ");
    if (r->failure.verdict == VERDICT_CRASH || r->failure.verdict == VERDICT_HANG)
        clt_str_append(&out, "Here the driver ends or blocks the program itself.");
    clt_str_append(&out, "\nWith cltrain the whole check is repeated by\n\n    ");
    clt_str_append(&out, options->repeat);
    clt_str_append(&out, "\n");
    put_case(r, &out);
    CLT_TRY(clt_str_check(&out));
    CLT_TRY(clt_path_join(options->folder, "report.md", &path));
    return clt_file_write(path, out.text, out.length);
}
