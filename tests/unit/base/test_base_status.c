/* SPDX-License-Identifier: Apache-2.0
 *
 * Status table, error text, its transfer between threads, and the log sink. Knows only engine/base.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <errno.h>
#include <pthread.h>

#include "engine/base/log.h"
#include "engine/base/scope.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

TEST(test_table)
{
    assert_string_equal(clt_status_name(CLT_EDATA), "CLT_EDATA");
    assert_string_equal(clt_status_text(CLT_EDATA), "data error");
    assert_int_equal(clt_status_exit_code(CLT_OK), 0);
    assert_int_equal(clt_status_exit_code(CLT_ECHECK), 1);
    assert_int_equal(clt_status_exit_code(CLT_ECONFIG), 2);
    assert_int_equal(clt_status_exit_code(CLT_EDATA), 3);
    assert_int_equal(clt_status_exit_code(CLT_EDEVICE), 4);
    assert_int_equal(clt_status_exit_code(CLT_EDEVMEM), 5);
    assert_int_equal(clt_status_exit_code(CLT_ENUMERIC), 6);
    assert_int_equal(clt_status_exit_code(CLT_ECHECKPOINT), 7);
    assert_int_equal(clt_status_exit_code(CLT_ESTORAGE), 8);
    assert_int_equal(clt_status_exit_code(CLT_EINTERNAL), 70);
    assert_int_equal(clt_status_exit_code(CLT_EINTERRUPTED), 75);
    for (int i = 0; i < (int)CLT_STATUS_COUNT; i++) {
        assert_true(strncmp(clt_status_name((clt_status)i), "CLT_", 4) == 0);
        assert_true(strlen(clt_status_text((clt_status)i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(clt_status_name((clt_status)i), clt_status_name((clt_status)j));
    }
    assert_int_equal(clt_status_exit_code(CLT_STATUS_COUNT), 70);
}

static _Thread_local int fail_line;

static clt_status fails(const char *name)
{
    fail_line = __LINE__ + 1;
    CLT_FAIL(CLT_EDATA, "reading '%s': it is empty", name);
}

static clt_status forwards(const char *name)
{
    CLT_TRY(fails(name));
    return CLT_OK;
}

static clt_status cleans_up(int *cleaned)
{
    clt_status status = CLT_OK;
    CLT_TRY_GOTO(fails("x"), done);
    *cleaned = -1;
done:
    ++*cleaned;
    return status;
}

static clt_status fails_and_cleans_up(int *cleaned)
{
    clt_status status;
    CLT_FAIL_GOTO(CLT_ESHAPE, done, "no %d", 7);
done:
    ++*cleaned;
    return status;
}

TEST(test_fail)
{
    clt_error_clear();
    assert_string_equal(clt_error_text(), "");
    assert_string_equal(clt_error_origin(), "");
    errno = ENOSPC;
    assert_int_equal(forwards("a.txt"), CLT_EDATA);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(clt_error_text(), "reading 'a.txt': it is empty");
    char origin[512];
    (void)snprintf(origin, sizeof origin, "%s:%d", __FILE__, fail_line);
    assert_string_equal(clt_error_origin(), origin);
    int cleaned = 0;
    assert_int_equal(cleans_up(&cleaned), CLT_EDATA);
    assert_int_equal(fails_and_cleans_up(&cleaned), CLT_ESHAPE);
    assert_string_equal(clt_error_text(), "no 7");
    assert_int_equal(cleaned, 2);
    /* A failure raised with "ok" must not vanish. */
    assert_int_equal(clt_fail(CLT_OK, __FILE__, __LINE__, "odd"), CLT_EINTERNAL);
}

TEST(test_prefix)
{
    (void)fails("b");
    assert_int_equal(clt_fail_prefix(CLT_EDATA, "layer %d", 3), CLT_EDATA);
    assert_string_equal(clt_error_text(), "layer 3: reading 'b': it is empty");
    assert_int_equal(clt_fail_prefix(CLT_EDATA, "model:"), CLT_EDATA);
    assert_string_equal(clt_error_text(), "model: layer 3: reading 'b': it is empty");
    assert_ok(clt_fail_prefix(CLT_OK, "nothing"));
    assert_string_equal(clt_error_text(), "model: layer 3: reading 'b': it is empty");
    clt_error_clear();
    assert_int_equal(clt_fail_prefix(CLT_ENOMEM, "first"), CLT_ENOMEM);
    assert_string_equal(clt_error_text(), "first: out of host memory");
    /* The message may be its own argument. */
    (void)fails("c");
    (void)clt_fail(CLT_EDATA, __FILE__, __LINE__, "again: %s", clt_error_text());
    assert_string_equal(clt_error_text(), "again: reading 'c': it is empty");
}

TEST(test_long_message)
{
    /* Two-byte letters: wherever the cut is, the text must stay valid UTF-8 and end in dots. */
    for (int shift = 0; shift < 2; shift++) {
        CLT_FREED char *text = calloc(1, 10002);
        assert_non_null(text);
        for (int i = 0; i < 5000; i++)
            memcpy(text + shift + 2 * i, "\xc3\xa9", 2);
        if (shift)
            text[0] = 'x';
        (void)clt_fail(CLT_EDATA, __FILE__, __LINE__, "%s", text);
        const char *got = clt_error_text();
        size_t length = strlen(got);
        assert_true(length < CLT_ERROR_TEXT_SIZE && length > CLT_ERROR_TEXT_SIZE - 8);
        assert_string_equal(got + length - 3, "...");
        for (size_t at = 0; at < length;) {
            size_t size = clt_utf8_size(got + at, length - at);
            assert_true(size > 0);
            at += size;
        }
        (void)clt_fail(CLT_EDATA, __FILE__, __LINE__, "short");
        (void)clt_fail_prefix(CLT_EDATA, "%s", text);
        assert_true(strlen(clt_error_text()) < CLT_ERROR_TEXT_SIZE);
    }
}

static void *worker(void *context)
{
    clt_error *error = context;
    if (clt_error_text()[0] != '\0')
        return NULL; /* the parent's message must not be visible here: error stays CLT_OK, the test fails */
    clt_status status = fails("in a thread");
    clt_error_take(status, error);
    if (clt_error_text()[0] != '\0')
        error->status = CLT_EINTERNAL;
    return NULL;
}

TEST(test_transfer)
{
    enum { THREADS = 8 };
    static clt_error errors[THREADS];
    pthread_t threads[THREADS];
    (void)clt_fail(CLT_ECONFIG, __FILE__, __LINE__, "mine");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, &errors[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_string_equal(clt_error_text(), "mine");
    for (int i = 0; i < THREADS; i++) {
        clt_error_clear();
        assert_int_equal(clt_error_put(&errors[i]), CLT_EDATA);
        assert_string_equal(clt_error_text(), "reading 'in a thread': it is empty");
        assert_non_null(strstr(clt_error_origin(), "test_base_status.c:"));
    }
    clt_error ok;
    memset(&ok, 0x55, sizeof ok);
    clt_error_take(CLT_OK, &ok);
    assert_int_equal(ok.status, CLT_OK);
    assert_string_equal(ok.text, "");
    assert_ok(clt_error_put(&ok));
    clt_error_clear();
    clt_error bare;
    clt_error_take(CLT_ECOMM, &bare);
    assert_string_equal(bare.text, "communication error");
}

typedef struct log_record {
    int calls, inside;
    size_t longest;
    clt_log_level level;
    char text[256];
} log_record;

static void record_line(void *context, clt_log_level level, const char *line)
{
    log_record *record = context;
    if (record->inside++ != 0)
        record->calls += 1000000; /* two lines at once */
    record->calls++;
    record->level = level;
    if (strlen(line) > record->longest)
        record->longest = strlen(line);
    if (strchr(line, '\n'))
        record->calls += 1000000;
    size_t used = strlen(record->text);
    (void)snprintf(record->text + used, sizeof record->text - used, "[%.20s]", line);
    clt_log(CLT_LOG_ERROR, "from inside"); /* dropped, not a deadlock */
    record->inside--;
}

TEST(test_log)
{
    log_record record = {0};
    clt_log(CLT_LOG_ERROR, "dropped: there is no sink");
    clt_log_set_sink(record_line, &record, CLT_LOG_INFO);
    assert_int_equal(clt_log_max_level(), CLT_LOG_INFO);
    CLT_INFO("a %d", 1);
    CLT_DEBUG("hidden");
    CLT_WARN("two\nlines\n");
    assert_string_equal(record.text, "[a 1][two][lines]");
    assert_int_equal(record.level, CLT_LOG_WARN);
    char *text = malloc(5001);
    assert_non_null(text);
    memset(text, 'y', 5000);
    text[5000] = '\0';
    CLT_INFO("%s", text);
    free(text);
    assert_int_equal(record.longest, 5000);
    clt_log_set_sink(NULL, NULL, CLT_LOG_TRACE);
    CLT_INFO("dropped");
    assert_int_equal(record.calls, 4);
}

TEST(test_log_once)
{
    log_record record = {0};
    clt_log_set_sink(record_line, &record, CLT_LOG_INFO);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 40; i++)
            CLT_WARN_ONCE("w%d", i);
    assert_int_equal(record.calls, 40);
    record = (log_record){0};
    CLT_WARN_ONCE("w1");
    CLT_WARN("w1");
    CLT_INFO_ONCE("w%s", "x");
    clt_log_forget();
    CLT_WARN_ONCE("w1");
    clt_log_set_first(false);
    CLT_WARN_ONCE("other");
    clt_log_set_first(true);
    CLT_WARN_ONCE("other");
    assert_string_equal(record.text, "[w1][wx][w1][other]");
    clt_log_forget();
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
}

/* The sink and the run's log have levels of their own. */
TEST(test_log_copy)
{
    log_record record = {0}, run = {0};
    clt_log_level level = CLT_LOG_ERROR;
    clt_log_set_sink(record_line, &record, CLT_LOG_WARN);
    clt_log_set_copy(record_line, &run, CLT_LOG_DEBUG);
    assert_int_equal(clt_log_max_level(), CLT_LOG_DEBUG);
    CLT_DEBUG("a");
    CLT_WARN("b");
    clt_log_set_level(CLT_LOG_ERROR);
    CLT_WARN("c");
    assert_string_equal(record.text, "[b]");
    assert_string_equal(run.text, "[a][b][c]");
    clt_log_set_copy(NULL, NULL, CLT_LOG_TRACE);
    CLT_WARN("d");
    assert_int_equal(clt_log_max_level(), CLT_LOG_ERROR);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    clt_log_set_level(CLT_LOG_TRACE); /* no sink is set */
    CLT_WARN("e");
    assert_string_equal(run.text, "[a][b][c]");
    assert_true(clt_log_level_from_name("info", &level) && level == CLT_LOG_INFO);
    assert_false(clt_log_level_from_name("loud", &level));
}

static void *log_many(void *context)
{
    (void)context;
    for (int i = 0; i < 200; i++)
        CLT_INFO("line %d", i);
    return NULL;
}

TEST(test_log_threads)
{
    log_record record = {0};
    pthread_t threads[4];
    clt_log_set_sink(record_line, &record, CLT_LOG_INFO);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    assert_int_equal(record.calls, 800);
}
