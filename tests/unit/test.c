/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tests, checks and the temporary folder: tests/unit/test.h explains. */
#include "tests/unit/test.h"

#include <errno.h>

#include "cl/device/device.h"
#include "engine/files/fileio.h"

__attribute__((weak)) const test_program test_this_program;
bool run_everything;
static test_entry *list;
static const test_entry *current;
static char folder[200];
static pid_t owner; /* the folder's process: its children do not remove the folder */

void test_enlist(test_entry *entry)
{
    test_entry **at = &list;
    while (*at && (*at)->line < entry->line)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
}

static int remove_folder(void)
{
    clt_status status = folder[0] && getpid() == owner ? clt_remove_tree(folder) : CLT_OK;
    if (status != CLT_OK)
        fprintf(stderr, "%s\n", clt_error_text());
    folder[0] = '\0';
    return status == CLT_OK ? 0 : -1;
}

static void remove_at_exit(void)
{
    (void)remove_folder();
}

static int before_test(void **state)
{
    CMFixtureFunction before;
    current = *state;
    *state = NULL;
    before = current->before ? current->before : test_this_program.before;
    return before ? before(state) : 0;
}

static int after_test(void **state)
{
    CMFixtureFunction after = current->before || current->after ? current->after : test_this_program.after;
    int failed = after ? after(state) : 0;
    if (test_this_program.fresh_folder && remove_folder() != 0)
        failed = -1;
    return failed;
}

static int run_list(void)
{
    struct CMUnitTest *tests;
    size_t count = 0;
    for (const test_entry *entry = list; entry; entry = entry->next)
        count++;
    tests = calloc(count + 1, sizeof *tests);
    if (!tests)
        return 1;
    count = 0;
    for (test_entry *entry = list; entry; entry = entry->next)
        tests[count++] = (struct CMUnitTest){entry->name, entry->function, before_test, after_test, entry};
    int failed = _cmocka_run_group_tests(program_invocation_short_name, tests, count,
                                         test_this_program.set_up, test_this_program.tear_down);
    free(tests);
    return failed;
}

__attribute__((weak)) int main(int argc, char **argv)
{
    run_everything = argc > 1 && strcmp(argv[1], "all") == 0;
    if (test_this_program.begin)
        test_this_program.begin(argc, argv);
    if (test_this_program.device && !test_has_device())
        return TEST_SKIPPED;
    return run_list();
}

bool test_has_device(void)
{
    ocl_device_desc *devices;
    int count;
    clt_status status = ocl_list_devices(&devices, &count);
    if (status == CLT_OK) {
        free(devices);
        return true;
    }
    fprintf(stderr, "skipped: %s\n", clt_error_text());
    if (status != CLT_EDEVICE)
        exit(1);
    return false;
}

void test_must(clt_status status, const char *what, const char *file, int line)
{
    if (status == CLT_OK)
        return;
    print_error("%s: %s: %s\n", what, clt_status_name(status), clt_error_text());
    _fail(file, line);
}

void test_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("'%s' is not in: %s\n", part, text);
    _fail(file, line);
}

const char *test_folder(void)
{
    static char base[128]; /* its first value: tests change TMPDIR */
    if (folder[0])
        return folder;
    if (!base[0]) {
        const char *named = getenv("TMPDIR");
        snprintf(base, sizeof base, "%s", named && named[0] ? named : "/tmp");
        (void)atexit(remove_at_exit);
    }
    snprintf(folder, sizeof folder, "%s/cltrain_test_XXXXXX", base);
    assert_non_null(mkdtemp(folder));
    owner = getpid();
    return folder;
}

const char *in_dir(const char *name)
{
    static _Thread_local char path[8][256];
    static _Thread_local int turn;
    turn = (turn + 1) % 8;
    assert_true(snprintf(path[turn], sizeof path[turn], "%s/%s", test_folder(), name) <
                (int)sizeof path[turn]);
    return path[turn];
}

const char *put_file(const char *name, const void *bytes, size_t size)
{
    const char *path = in_dir(name);
    char above[512];
    snprintf(above, sizeof above, "%s", path);
    *strrchr(above, '/') = '\0';
    assert_ok(clt_mkdir_p(above));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *put_text(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}

char *read_file(const char *path, size_t *size)
{
    char *data;
    size_t length;
    assert_ok(clt_file_read(path, false, 0, CLT_ESTORAGE, &data, &length));
    if (size)
        *size = length;
    return data;
}

char *with_folder(const char *text)
{
    size_t room = strlen(text) + 1;
    for (const char *at = strstr(text, "%D"); at; at = strstr(at + 2, "%D"))
        room += sizeof folder;
    char *out = malloc(room), *to = out;
    assert_non_null(out);
    for (; *text; text++) {
        if (text[0] == '%' && text[1] == 'D') {
            to = stpcpy(to, test_folder());
            text++;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return out;
}
