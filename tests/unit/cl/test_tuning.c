/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning records: sets and which record applies to which problem, text and files with every kind of damage,
 * sets that ship with the program, the choice among GEMM backends. Needs no device. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "cl/gemm/gemm.h"
#include "cl/tune/tuning_store.h"
#include "engine/base/log.h"

static char folder[64];

FIXTURE(setup)
{
    snprintf(folder, sizeof folder, "/tmp/cltrain-tuning-XXXXXX");
    if (mkdtemp(folder) == NULL || setenv("CLTRAIN_CACHE_DIR", folder, 1) != 0)
        return -1;
    return unsetenv("CLTRAIN_GEMM");
}

FIXTURE(teardown)
{
    clt_log_set_sink(NULL, NULL, CLT_LOG_ERROR);
    return clt_remove_tree(folder) == CLT_OK ? 0 : -1;
}

/* Lines of the log, one after the other. */
static char lines[8192];
static int n_warnings;
static void keep_line(void *context, clt_log_level level, const char *line)
{
    (void)context;
    n_warnings += level <= CLT_LOG_WARN;
    size_t used = strlen(lines);
    snprintf(lines + used, sizeof lines - used, "%s\n", line);
}
static void listen(clt_log_level level)
{
    lines[0] = '\0';
    n_warnings = 0;
    clt_log_set_sink(keep_line, NULL, level);
}

static ocl_device_desc device(void)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    snprintf(d.platform, sizeof d.platform, "Test platform");
    snprintf(d.name, sizeof d.name, "Test GPU (80 GB)");
    snprintf(d.driver, sizeof d.driver, "1.2.3");
    d.compute_units = 7;
    return d;
}

static ocl_choice choice(const char *problem, const char *variant)
{
    ocl_choice c = {.ns = 1250.5, .default_ns = 2000.25, .tried = 12, .complete = true};
    snprintf(c.family, sizeof c.family, OCL_GEMM_FAMILY);
    snprintf(c.problem, sizeof c.problem, "%s", problem);
    snprintf(c.variant, sizeof c.variant, "%s", variant);
    return c;
}

static ocl_tuning *sample(const ocl_device_desc *d)
{
    ocl_tuning *t;
    assert_ok(ocl_tuning_create(d, &t));
    ocl_choice c = choice("NT m=8 n=16 k=32 batch=1 f32*f32->f32 +bias", "lane");
    assert_ok(ocl_choice_set(&c, "nv", 2));
    assert_ok(ocl_choice_set(&c, "kc", 256));
    assert_ok(ocl_tuning_set(t, &c));
    c = choice("NN m=8 n=16 k=32 batch=1 f32*f32->f32", "simple");
    c.complete = false;
    assert_ok(ocl_tuning_set(t, &c));
    return t;
}

/* --- records and sets --- */

TEST(test_values)
{
    ocl_choice a = {0}, b = {0};
    char text[OCL_CHOICE_TEXT], name[16];
    assert_ok(ocl_choice_set(&a, "nv", 2));
    assert_ok(ocl_choice_set(&a, "mr", 6));
    assert_ok(ocl_choice_set(&b, "mr", 5));
    assert_ok(ocl_choice_set(&b, "nv", 2));
    assert_false(ocl_choice_equal(&a, &b));
    assert_ok(ocl_choice_set(&b, "mr", 6));
    assert_true(ocl_choice_equal(&a, &b)); /* whatever the order */
    assert_int_equal(ocl_choice_value(&a, "mr", -1), 6);
    assert_int_equal(ocl_choice_value(&a, "kc", -1), -1);
    snprintf(a.variant, sizeof a.variant, "lane");
    assert_string_equal(ocl_choice_text(&a, text, sizeof text), "lane mr=6 nv=2");
    assert_false(ocl_choice_equal(&a, &b));
    for (int i = 0; i < OCL_TUNE_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        clt_status status = ocl_choice_set(&b, name, i);
        assert_int_equal(status, i < OCL_TUNE_MAX - 2 ? CLT_OK : CLT_EINTERNAL);
    }
    ocl_emitter e = {0};
    assert_int_equal(ocl_tuned(&e, "mr", 3), 3);
    ocl_choice asked = {0};
    e.record = &a;
    e.asked = &asked;
    assert_int_equal(ocl_tuned(&e, "mr", 3), 6);
    assert_int_equal(ocl_tuned(&e, "kc", 3), 3);
    assert_int_equal(ocl_choice_value(&asked, "mr", -1), 6);
    assert_int_equal(ocl_choice_value(&asked, "kc", -1), 3);
}

TEST(test_sets)
{
    ocl_device_desc d = device();
    ocl_tuning *t = sample(&d), *copy;
    assert_int_equal(t->count, 2);
    assert_string_equal(t->records[0].variant, "simple"); /* ordered */
    ocl_choice c = choice("NN m=8 n=16 k=32 batch=1 f32*f32->f32", "lane");
    assert_ok(ocl_tuning_set(t, &c));
    assert_int_equal(t->count, 2); /* replaced */
    assert_string_equal(t->records[0].variant, "lane");
    assert_ok(ocl_tuning_copy(t, &copy));
    assert_int_equal(ocl_tuning_hash(copy), ocl_tuning_hash(t));
    copy->records[0].ns = 1; /* times are not part of the choice */
    assert_int_equal(ocl_tuning_hash(copy), ocl_tuning_hash(t));
    assert_ok(ocl_choice_set(&copy->records[0], "kc", 1));
    assert_int_not_equal(ocl_tuning_hash(copy), ocl_tuning_hash(t));
    ocl_tuning_remove(copy, OCL_GEMM_FAMILY, "nothing");
    ocl_tuning_remove(copy, OCL_GEMM_FAMILY, c.problem);
    assert_int_equal(copy->count, 1);
    assert_null(ocl_tuning_exact(copy, OCL_GEMM_FAMILY, c.problem));
    assert_null(ocl_tuning_exact(copy, "other", copy->records[0].problem));
    assert_null(ocl_tuning_exact(NULL, OCL_GEMM_FAMILY, c.problem));
    assert_null(ocl_tuning_find(NULL, OCL_GEMM_FAMILY, c.problem));
    ocl_tuning *other = sample(&d);
    assert_ok(ocl_tuning_merge(t, other, false));
    assert_string_equal(t->records[0].variant, "lane");
    assert_ok(ocl_tuning_merge(t, other, true));
    assert_string_equal(t->records[0].variant, "simple");
    char why[600];
    assert_true(ocl_tuning_fits(t, &d, why, sizeof why));
    d.compute_units = 8;
    assert_false(ocl_tuning_fits(t, &d, why, sizeof why));
    assert_contains(why, "7 compute units");
    d = device();
    snprintf(d.driver, sizeof d.driver, "1.2.4");
    assert_false(ocl_tuning_fits(t, &d, why, sizeof why));
    assert_contains(why, "driver 1.2.3");
    d = device();
    snprintf(d.name, sizeof d.name, "Another");
    assert_false(ocl_tuning_fits(t, &d, why, sizeof why));
    ocl_tuning_destroy(t);
    ocl_tuning_destroy(copy);
    ocl_tuning_destroy(other);
}

/* Which record a problem gets. */
TEST(test_likeness)
{
    static const struct {
        const char *problem, *want;
    } cases[] = {
        {"NN m=100 n=100 k=100 f", "a"},
        {"NN m=120 n=90 k=100 f", "a"},
        {"NN m=200 n=100 k=100 f", "a"},
        {"NN m=201 n=100 k=100 f", NULL},
        {"NN m=800 n=900 k=1000 f", "b"},
        {"NN m=300 n=300 k=300 f", NULL},
        {"NT m=100 n=100 k=100 f", NULL},
        {"NN m=100 n=100 k=100 h", NULL},
        {"NN m=100 n=100 f", NULL},
        {"NN m=100 n=100 k=100 f +x", "a"},
        {"NN m=100 n=100 k=100 +x f", "a"},
        {"NN m=1 n=50 k=50 f", "one"},
        {"NN m=2 n=50 k=50 f", NULL},
        {"NN m=1 n=50 k=50 f +x +y", "one+x"},
        {"NN m=1 n=50 k=50 f +y", "one"},
        {"NN q=100 n=100 k=100 f", NULL},
        {"", NULL},
        {"NN m=100x n=100 k=100 f", NULL},
    };
    ocl_device_desc d = device();
    ocl_tuning *t;
    assert_ok(ocl_tuning_create(&d, &t));
    ocl_choice c = choice("NN m=100 n=100 k=100 f", "a");
    assert_ok(ocl_tuning_set(t, &c));
    c = choice("NN m=1000 n=1000 k=1000 f", "b");
    assert_ok(ocl_tuning_set(t, &c));
    c = choice("NN m=1 n=50 k=50 f", "one");
    assert_ok(ocl_tuning_set(t, &c));
    c = choice("NN m=1 n=50 k=50 f +x", "one+x");
    assert_ok(ocl_tuning_set(t, &c));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ocl_choice *found = ocl_tuning_find(t, OCL_GEMM_FAMILY, cases[i].problem);
        if (cases[i].want == NULL ? found != NULL
                                  : found == NULL || strcmp(found->variant, cases[i].want) != 0)
            fail_msg("'%s': got %s, expected %s", cases[i].problem, found ? found->variant : "none",
                     cases[i].want ? cases[i].want : "none");
    }
    assert_null(ocl_tuning_find(t, "other", "NN m=100 n=100 k=100 f"));
    t->exact = true; /* a checkpoint's set: similar problems do not count */
    assert_null(ocl_tuning_find(t, OCL_GEMM_FAMILY, "NN m=120 n=90 k=100 f"));
    assert_non_null(ocl_tuning_find(t, OCL_GEMM_FAMILY, "NN m=100 n=100 k=100 f"));
    ocl_tuning_destroy(t);
}

TEST(test_log)
{
    ocl_tuning_log log = {0}, all = {0};
    ocl_choice c = choice("a problem like it", "lane");
    int data = 5;
    assert_ok(ocl_tuning_log_add(NULL, "f", "p", &data, sizeof data, 1, NULL));
    assert_ok(ocl_tuning_log_add(&log, "f", "p", &data, sizeof data, 10, &c));
    assert_ok(ocl_tuning_log_add(&log, "f", "q", NULL, 0, 20, NULL));
    assert_ok(ocl_tuning_log_add(&log, "f", "p", &data, sizeof data, 10, &c));
    assert_ok(ocl_tuning_log_merge(&all, &log));
    assert_ok(ocl_tuning_log_merge(&all, &log));
    assert_int_equal(all.count, 2);
    assert_int_equal(all.at[0].calls, 4);
    assert_int_equal(*(int *)all.at[0].data, 5);
    assert_string_equal(all.at[0].record.problem, "p"); /* under the name in its own record */
    assert_true(all.at[0].tuned && !all.at[1].tuned);
    ocl_tuning_log_free(&log);
    ocl_tuning_log_free(&all);
}

/* --- text --- */

static void print(const ocl_tuning *t, clt_str *text)
{
    text->length = 0;
    assert_ok(ocl_tuning_print(t, text));
}

TEST(test_text_round_trip)
{
    ocl_device_desc d = device();
    ocl_tuning *t = sample(&d), *back;
    clt_str a = {0}, b = {0};
    int outdated = -1;
    print(t, &a);
    assert_ok(ocl_tuning_parse(a.text, a.length, "test", &back, &outdated));
    assert_int_equal(outdated, 0);
    print(back, &b);
    assert_string_equal(a.text, b.text);
    assert_memory_equal(back->records, t->records, t->count * sizeof *t->records);
    assert_memory_equal(&back->key, &t->key, sizeof t->key);
    ocl_tuning_destroy(back);
    /* In a checkpoint's form, without times, so that equal choices give equal text. */
    clt_json_writer w = clt_json_writer_make(&b, 0);
    b.length = 0;
    t->exact = true;
    t->records[0].ns = 4711;
    ocl_tuning_write(t, false, &w);
    assert_null(strstr(b.text, "4711"));
    clt_json_doc *doc;
    assert_ok(clt_json_parse(b.text, b.length, "test", CLT_EDATA, &doc));
    assert_ok(ocl_tuning_read(clt_json_root(doc), "test", &back, NULL));
    assert_true(back->exact);
    assert_int_equal(ocl_tuning_hash(back), ocl_tuning_hash(t));
    clt_json_destroy(doc);
    ocl_tuning_destroy(back);
    ocl_tuning_destroy(t);
    clt_str_free(&a);
    clt_str_free(&b);
}

/* Every truncation and every flipped bit is found. */
TEST(test_text_damage)
{
    ocl_device_desc d = device();
    ocl_tuning *t = sample(&d), *back;
    CLT_SCOPED(clt_str) text = {0};
    print(t, &text);
    for (size_t n = 0; n < text.length; n++) {
        assert_int_equal(ocl_tuning_parse(text.text, n, "test", &back, NULL), CLT_EDATA);
        assert_null(back);
    }
    for (size_t i = 0; i < text.length * 8; i++) {
        text.text[i / 8] = (char)(text.text[i / 8] ^ (1 << i % 8));
        if (ocl_tuning_parse(text.text, text.length, "test", &back, NULL) == CLT_OK)
            fail_msg("bit %zu may be flipped", i);
        text.text[i / 8] = (char)(text.text[i / 8] ^ (1 << i % 8));
    }
    assert_ok(ocl_tuning_parse(text.text, text.length, "test", &back, NULL));
    ocl_tuning_destroy(back);
    ocl_tuning_destroy(t);
}

/* Complete objects that state something impossible. */
TEST(test_text_nonsense)
{
#define HEAD                                                                                                 \
    "{\"format\":\"cltrain-tuning\",\"format_version\":1,\"platform\":\"p\",\"device\":\"d\",\"driver\":"    \
    "\"v\",\"compute_units\":1,\"exact\":false,\"families\":{\"gemm\":\"*\"},\"records\":"
#define RECORD(values) "[{\"family\":\"gemm\",\"problem\":\"a\",\"variant\":\"b\",\"values\":" values "}]}"
    static const char *const good[] = {HEAD "[]}", HEAD RECORD("{}"), HEAD RECORD("{\"x\":-3}")};
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"format\":\"other\"}",
        "{\"format\":\"cltrain-tuning\",\"format_version\":2}",
        "{\"format\":\"cltrain-tuning\",\"format_version\":1}",
        HEAD "{}}",
        HEAD "[1]}",
        HEAD "[{}]}",
        HEAD RECORD("[]"),
        HEAD RECORD("{\"x\":1.5}"),
        HEAD RECORD("{\"x\":\"1\"}"),
        HEAD RECORD("{\"x\":4294967296}"),
        HEAD RECORD("{\"a name that is much longer than allowed\":1}"),
        HEAD "[{\"family\":\"gemm\",\"problem\":\"\",\"variant\":\"b\",\"values\":{}}]}",
        HEAD "[{\"family\":\"gemm\",\"problem\":\"a\\nb\",\"variant\":\"b\",\"values\":{}}]}",
        HEAD "[{\"family\":\"other\",\"problem\":\"a\",\"variant\":\"b\",\"values\":{}}]}",
        HEAD "[{\"family\":\"gemm\",\"problem\":\"a\",\"variant\":\"b\",\"values\":{},\"ns\":1}]}",
        HEAD
        "[{\"family\":\"gemm\",\"problem\":\"a\",\"variant\":\"b\",\"values\":{},\"ns\":-1,\"default_ns\":1,"
        "\"tried\":1,\"complete\":true}]}",
        HEAD "[{\"family\":\"gemm\",\"problem\":\"a\",\"variant\":\"b\",\"values\":{}},{\"family\":\"gemm\","
             "\"problem\":\"a\",\"variant\":\"c\",\"values\":{}}]}",
    };
    ocl_tuning *t;
    clt_json_doc *doc;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(clt_json_parse(good[i], strlen(good[i]), "test", CLT_EDATA, &doc));
        assert_ok(ocl_tuning_read(clt_json_root(doc), "test", &t, NULL));
        ocl_tuning_destroy(t);
        clt_json_destroy(doc);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_ok(clt_json_parse(bad[i], strlen(bad[i]), "test", CLT_EDATA, &doc));
        if (ocl_tuning_read(clt_json_root(doc), "test", &t, NULL) != CLT_EDATA)
            fail_msg("accepted: %s", bad[i]);
        assert_null(t);
        clt_json_destroy(doc);
    }
}

/* Records of kernels that have changed since are dropped. */
TEST(test_other_kernels)
{
    char text[1024], sources[64];
    uint64_t now, then;
    int outdated;
    ocl_tuning *t;
    clt_json_doc *doc;
    assert_ok(ocl_family_hash("gemm", &now));
    snprintf(sources, sizeof sources, "/tmp/cltrain-kernels-XXXXXX");
    assert_non_null(mkdtemp(sources));
    test_write_source(sources, "gemm.cl", "__kernel void changed(void) {}\n");
    assert_int_equal(setenv("CLTRAIN_KERNEL_DIR", sources, 1), 0);
    assert_ok(ocl_family_hash("gemm", &then));
    assert_int_equal(unsetenv("CLTRAIN_KERNEL_DIR"), 0);
    assert_ok(clt_remove_tree(sources));
    assert_int_not_equal(now, then);
    assert_ok(ocl_family_hash("clblast", &then));
    assert_int_not_equal(now, then);
    for (int changed = 0; changed < 2; changed++) {
        snprintf(text, sizeof text,
                 "{\"format\":\"cltrain-tuning\",\"format_version\":1,\"platform\":\"p\",\"device\":\"d\","
                 "\"driver\":\"v\",\"compute_units\":1,\"exact\":false,\"families\":{\"gemm\":\"%016llx\"},"
                 "\"records\":" RECORD("{}"),
                 (unsigned long long)(changed ? now ^ 1 : now));
        assert_ok(clt_json_parse(text, strlen(text), "test", CLT_EDATA, &doc));
        assert_ok(ocl_tuning_read(clt_json_root(doc), "test", &t, &outdated));
        assert_int_equal(outdated, changed);
        assert_int_equal(t->count, 1 - changed);
        ocl_tuning_destroy(t);
        clt_json_destroy(doc);
    }
}

/* --- files --- */

static char *own_path(const ocl_device_desc *d)
{
    char *path;
    assert_ok(ocl_tuning_path(d, &path));
    return path;
}

TEST_BETWEEN(test_files, setup, teardown)
{
    ocl_device_desc d = device(), driver = device(), units = device();
    ocl_tuning *t = sample(&d), *back;
    struct stat info;
    bool removed;
    snprintf(driver.driver, sizeof driver.driver, "9");
    units.compute_units = 1;
    char *path = own_path(&d), *path_driver = own_path(&driver), *path_units = own_path(&units), *where;
    assert_string_not_equal(path, path_driver);
    assert_string_not_equal(path, path_units);
    assert_contains(path, "/tuning/test-gpu-80-gb-");
    listen(CLT_LOG_INFO);
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, 0);
    ocl_tuning_destroy(back);
    assert_ok(ocl_tuning_save(&d, t));
    assert_ok(ocl_tuning_folder(&where));
    assert_int_equal(stat(where, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(ocl_tuning_hash(back), ocl_tuning_hash(t));
    ocl_tuning_destroy(back);
    /* Saving adds to what is there. */
    ocl_tuning *more;
    assert_ok(ocl_tuning_create(&d, &more));
    ocl_choice c = choice("TN m=3 n=3 k=3 batch=1 f32*f32->f32", "simple");
    assert_ok(ocl_tuning_set(more, &c));
    c = choice("NN m=8 n=16 k=32 batch=1 f32*f32->f32", "lane");
    assert_ok(ocl_tuning_set(more, &c));
    assert_ok(ocl_tuning_save(&d, more));
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, 3);
    assert_string_equal(ocl_tuning_exact(back, OCL_GEMM_FAMILY, c.problem)->variant, "lane");
    ocl_tuning_destroy(back);
    assert_ok(ocl_tuning_load(&driver, &back)); /* another driver starts anew */
    assert_int_equal(back->count, 0);
    ocl_tuning_destroy(back);
    assert_string_equal(lines, ""); /* nothing of this is logged */
    assert_ok(ocl_tuning_clear(&d, &removed));
    assert_true(removed);
    assert_ok(ocl_tuning_clear(&d, &removed));
    assert_false(removed);
    ocl_tuning_destroy(t);
    ocl_tuning_destroy(more);
    free(path);
    free(path_driver);
    free(path_units);
    free(where);
}

/* One of several processes that measure at the same time: it saves record after record. */
static void save_some(const ocl_device_desc *d, int process, int count)
{
    for (int i = 0; i < count; i++) {
        char problem[OCL_TUNE_PROBLEM];
        CLT_SCOPED(ocl_tuning) *t = NULL;
        snprintf(problem, sizeof problem, "NN m=%d n=%d k=8 batch=1 f32*f32->f32", process + 1, i + 1);
        ocl_choice c = choice(problem, "simple");
        if (ocl_tuning_create(d, &t) != CLT_OK || ocl_tuning_set(t, &c) != CLT_OK ||
            ocl_tuning_save(d, t) != CLT_OK)
            _exit(1);
    }
    _exit(0);
}

/* Ranks and runs of one machine share the file: none of their records is lost. */
TEST_BETWEEN(test_processes, setup, teardown)
{
    enum { PROCESSES = 6, RECORDS = 8 };
    ocl_device_desc d = device();
    CLT_SCOPED(ocl_tuning) *back = NULL;
    pid_t child[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        child[p] = fork();
        assert_true(child[p] >= 0);
        if (child[p] == 0)
            save_some(&d, p, RECORDS);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int how = -1;
        assert_int_equal(waitpid(child[p], &how, 0), child[p]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, PROCESSES * RECORDS);
}

static void count_file(void *context, const char *path, const ocl_tuning *tuning, int outdated,
                       const char *defect)
{
    int *counts = context;
    assert_contains(path, "/tuning/");
    assert_int_equal(outdated, 0);
    assert_true((tuning == NULL) == (defect != NULL));
    counts[tuning == NULL]++;
}

/* A file that is half written, damaged, of another driver, or not ours: ignored with one line in the log,
 * then replaced. */
TEST_BETWEEN(test_bad_files, setup, teardown)
{
    static const char *const junk[] = {"", "{", "[1,2",
                                       "\x7f"
                                       "ELF",
                                       "{\"format\":\"cltrain-tuning\"}"};
    ocl_device_desc d = device(), other = device();
    ocl_tuning *t = sample(&d), *back;
    clt_str text = {0};
    int counts[2] = {0, 0};
    snprintf(other.driver, sizeof other.driver, "another");
    char *path = own_path(&d), *foreign = own_path(&other);
    assert_ok(ocl_tuning_save(&d, t));
    print(t, &text);
    for (size_t i = 0; i < 7; i++) {
        listen(CLT_LOG_WARN);
        if (i < 5)
            assert_ok(clt_file_write(path, junk[i], strlen(junk[i])));
        else if (i == 5)
            assert_ok(clt_file_write(path, text.text, text.length / 2));
        else /* copied from the other driver */
            assert_ok(clt_file_write(foreign, text.text, text.length));
        assert_ok(ocl_tuning_load(i < 6 ? &d : &other, &back));
        assert_int_equal(back->count, 0);
        assert_int_equal(n_warnings, 1);
        assert_contains(lines, "tuning records are ignored: ");
        assert_contains(lines, i < 6 ? path : foreign);
        if (i == 6)
            assert_contains(lines, "driver 1.2.3, this one is another");
        ocl_tuning_destroy(back);
        listen(CLT_LOG_WARN); /* rebuilt without another log line */
        assert_ok(ocl_tuning_save(&d, t));
        assert_ok(ocl_tuning_load(&d, &back));
        assert_int_equal(back->count, t->count);
        assert_int_equal(n_warnings, 0);
        ocl_tuning_destroy(back);
    }
    assert_ok(ocl_tuning_list(count_file, counts));
    assert_int_equal(counts[0], 2);
    assert_ok(clt_file_write(path, "x", 1));
    counts[0] = counts[1] = 0;
    assert_ok(ocl_tuning_list(count_file, counts));
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    /* A checkpoint's set in place of a measured one. */
    listen(CLT_LOG_WARN);
    t->exact = true;
    print(t, &text);
    assert_ok(clt_file_write(path, text.text, text.length));
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, 0);
    assert_int_equal(n_warnings, 1);
    ocl_tuning_destroy(back);
    ocl_tuning_destroy(t);
    clt_str_free(&text);
    free(path);
    free(foreign);
}

/* A folder that others can write to is not trusted, and not written to. */
TEST_BETWEEN(test_open_folder, setup, teardown)
{
    ocl_device_desc d = device();
    ocl_tuning *t = sample(&d), *back;
    CLT_FREED char *where = NULL;
    assert_ok(ocl_tuning_folder(&where));
    assert_ok(ocl_tuning_save(&d, t));
    assert_int_equal(chmod(where, 0777), 0);
    listen(CLT_LOG_WARN);
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, 0);
    assert_contains(lines, "other users may write");
    ocl_tuning_destroy(back);
    int counts[2] = {0, 0};
    assert_int_equal(ocl_tuning_list(count_file, counts), CLT_ESTORAGE); /* nor listed as if it were */
    assert_int_equal(counts[0], 0);
    clt_error_clear();
    assert_int_equal(ocl_tuning_save(&d, t), CLT_ESTORAGE);
    assert_int_equal(chmod(where, 0755), 0);
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(back->count, 2);
    ocl_tuning_destroy(back);
    ocl_tuning_destroy(t);
}

TEST_BETWEEN(test_folder_names, setup, teardown)
{
    char *where, *home = strdup(getenv("HOME") ? getenv("HOME") : "");
    assert_int_equal(unsetenv("CLTRAIN_CACHE_DIR"), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/x", 1), 0);
    assert_ok(ocl_tuning_folder(&where));
    assert_string_equal(where, "/x/cltrain/tuning");
    free(where);
    assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
    assert_int_equal(setenv("HOME", "/h", 1), 0);
    assert_ok(ocl_tuning_folder(&where));
    assert_string_equal(where, "/h/.cache/cltrain/tuning");
    free(where);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(ocl_tuning_folder(&where), CLT_ESTORAGE);
    ocl_device_desc d = device();
    ocl_tuning *back; /* no folder to look in: no warning */
    listen(CLT_LOG_WARN);
    assert_ok(ocl_tuning_load(&d, &back));
    assert_int_equal(n_warnings, 0);
    ocl_tuning_destroy(back);
    assert_int_equal(setenv("HOME", home, 1), 0);
    assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
    assert_int_equal(setenv("CLTRAIN_CACHE_DIR", folder, 1), 0);
    free(home);
}

/* --- sets that ship --- */

TEST_BETWEEN(test_shipped, setup, teardown)
{
#define SHIPPED(device, driver, units, hash, variant)                                                        \
    "{\"format\":\"cltrain-tuning\",\"format_version\":1,\"platform\":\"Test "                               \
    "platform\",\"device\":\"" device "\",\"driver\":\"" driver "\",\"compute_units\":" units                \
    ",\"exact\":false,\"families\":{\"gemm\":\"" hash "\"},\"records\":[{\"family\":\"gemm\",\"problem\":\"" \
    "NN m=8 n=16 k=32 batch=1 f32*f32->f32\",\"variant\":\"" variant "\",\"values\":{}}]}"
    static const char any[] = SHIPPED("Test GPU (80 GB)", "*", "0", "*", "any"),
                      same[] = SHIPPED("Test GPU (80 GB)", "1.2.3", "7", "*", "same"),
                      old[] = SHIPPED("Test GPU (80 GB)", "*", "0", "0123456789abcdef", "old"),
                      other[] = SHIPPED("Other GPU", "*", "0", "*", "other"), broken[] = "{\"format\":";
    static const ocl_embedded_source table[] = {
        {"other.json", other, sizeof other - 1}, {"broken.json", broken, sizeof broken - 1},
        {"old.json", old, sizeof old - 1},       {"any.json", any, sizeof any - 1},
        {"same.json", same, sizeof same - 1},    {NULL, NULL, 0}};
    const char *problem = "NN m=8 n=16 k=32 batch=1 f32*f32->f32";
    ocl_device_desc d = device();
    ocl_tuning *t;
    assert_ok(ocl_tuning_create(&d, &t));
    listen(CLT_LOG_WARN);
    assert_ok(ocl_tuning_add_shipped(t, &d, table));
    assert_int_equal(n_warnings, 1);
    assert_contains(lines, "broken.json");
    assert_int_equal(t->count, 1);
    assert_string_equal(ocl_tuning_exact(t, OCL_GEMM_FAMILY, problem)->variant, "any");
    ocl_tuning_destroy(t);
    t = sample(&d); /* what was measured on this machine comes first */
    assert_ok(ocl_tuning_add_shipped(t, &d, table));
    assert_string_equal(ocl_tuning_exact(t, OCL_GEMM_FAMILY, problem)->variant, "simple");
    ocl_tuning_destroy(t);
    /* The sets in the program are complete. */
    listen(CLT_LOG_WARN);
    assert_ok(ocl_tuning_create(&d, &t));
    assert_ok(ocl_tuning_add_shipped(t, &d, ocl_embedded_params));
    assert_string_equal(lines, "");
    ocl_tuning_destroy(t);
}

/* --- choosing a GEMM backend --- */

static const char *emitted(ocl_device_desc *d, const ocl_gemm *g, const char *force, ocl_tuning_log *log,
                           const ocl_choice *trial, clt_status want)
{
    static char variant[64];
    ocl_command_list list = {0};
    assert_ok(clt_arena_create(&list.arena));
    ocl_emitter e = {
        .list = &list, .device = d, .label = "t", .variant = "", .node = -1, .log = log, .record = trial};
    clt_status status = ocl_gemm_emit(&e, g, force);
    assert_int_equal(status, want);
    variant[0] = '\0';
    if (status == CLT_OK)
        snprintf(variant, sizeof variant, "%s", list.commands[list.count - 1].variant);
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    clt_error_clear();
    return variant;
}

TEST_BETWEEN(test_gemm_choice, setup, teardown)
{
    ocl_device_desc d = device();
    ocl_gemm g = ocl_gemm_make(64, 64, 64, false, false);
    ocl_tuning *t;
    ocl_tuning_log log = {0};
    char problem[OCL_TUNE_PROBLEM];
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    ocl_gemm_problem(&g, problem, sizeof problem);
    assert_string_equal(problem, "NN m=64 n=64 k=64 batch=1 f32*f32->f32");
    const char *standard = strdup(emitted(&d, &g, NULL, &log, NULL, CLT_OK));
    assert_string_not_equal(standard, "simple");
    assert_int_equal(log.count, 1);
    assert_false(log.at[0].tuned);
    assert_string_equal(log.at[0].problem, problem);
    assert_int_equal(log.at[0].size, sizeof g);
    ocl_tuning_log_free(&log);

    assert_ok(ocl_tuning_create(&d, &t));
    ocl_choice c = choice(problem, "simple");
    assert_ok(ocl_tuning_set(t, &c));
    d.tuning = t;
    assert_string_equal(emitted(&d, &g, NULL, &log, NULL, CLT_OK), "simple"); /* the record decides */
    assert_true(log.at[0].tuned);
    assert_string_equal(emitted(&d, &g, standard, NULL, NULL, CLT_OK), standard); /* force goes first */
    assert_int_equal(setenv("CLTRAIN_GEMM", standard, 1), 0);                     /* so is the environment */
    assert_string_equal(emitted(&d, &g, NULL, NULL, NULL, CLT_OK), standard);
    assert_int_equal(unsetenv("CLTRAIN_GEMM"), 0);

    /* Records that make no sense are ignored, with a reason for the debug log. */
    listen(CLT_LOG_DEBUG);
    c = choice(problem, "no such variant");
    assert_ok(ocl_tuning_set(t, &c));
    assert_string_equal(emitted(&d, &g, NULL, NULL, NULL, CLT_OK), standard);
    assert_contains(lines, "there is no variant 'no such variant'");
    c = choice(problem, "simple");
    assert_ok(ocl_choice_set(&c, "mr", 6)); /* it has no such tunable */
    assert_ok(ocl_tuning_set(t, &c));
    assert_string_equal(emitted(&d, &g, NULL, NULL, NULL, CLT_OK), standard);
    assert_contains(lines, "does not have the choice mr=6");
    c = choice(problem, "lane");
    assert_ok(ocl_choice_set(&c, "mr", 4711));
    assert_ok(ocl_tuning_set(t, &c));
    d.caps |= OCL_CAP_WIDE_VECTORS;
    assert_string_equal(emitted(&d, &g, NULL, NULL, NULL, CLT_OK), "lane"); /* by itself, not by the record */
    assert_contains(lines, "does not have the choice mr=4711");
    d.caps = device().caps;

    /* A choice of the tuner is taken or refused, never replaced. */
    c = choice(problem, "simple");
    assert_string_equal(emitted(&d, &g, NULL, NULL, &c, CLT_OK), "simple");
    c = choice(problem, "no such variant");
    emitted(&d, &g, NULL, NULL, &c, CLT_EUNSUPPORTED);
    ocl_tuning_log_free(&log);
    ocl_tuning_destroy(t);
    free((void *)(uintptr_t)standard);
}
