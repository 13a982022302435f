/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a device's test results: which capabilities count, reports, writing and reading the text,
 * damage to every byte of the file, files of another device, devices of one model of which some are refused,
 * what the driver refused, and what is discarded after a restart. Needs no device. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include <sys/stat.h>

#include "cl/device/capabilities.h"
#include "cl/device/internal.h"
#include "engine/json/json_seal.h"

static void set(ocl_capabilities *a, const char *name, ocl_answer what, uint32_t drops, const char *reason)
{
    ocl_item item = {.answer = what, .drops = drops, .value = what == OCL_ANSWER_YES ? 7 : 0};
    snprintf(item.name, sizeof item.name, "%s", name);
    snprintf(item.reason, sizeof item.reason, "%s", reason);
    assert_ok(ocl_capabilities_set(a, &item));
}

static ocl_capabilities *sample(const ocl_device_desc *desc)
{
    ocl_capabilities *a = calloc(1, sizeof *a);
    assert_non_null(a);
    assert_ok(ocl_capabilities_key(desc, OCL_STYLE_ASKED, &a->key));
    set(a, OCL_ITEM_BASIC, OCL_ANSWER_YES, 0, "");
    set(a, "local", OCL_ANSWER_YES, OCL_CAP_LOCAL, "");
    set(a, "wg256", OCL_ANSWER_HUNG, OCL_CAP_WG256, "no answer in 30 s");
    set(a, "fp16", OCL_ANSWER_NO, OCL_CAP_FP16, "not announced, \"says\" the device");
    set(a, "mma_f16", OCL_ANSWER_YES, OCL_CAP_MMA_F16, "");
    set(a, "mma_bf16", OCL_ANSWER_YES, OCL_CAP_MMA_BF16, "");
    set(a, "test:floor", OCL_ANSWER_YES, 0, "");
    set(a, "test:mma_f16", OCL_ANSWER_CRASHED, OCL_CAP_MMA_F16, "SIGSEGV");
    ocl_capabilities_note_asked(a, OCL_CAPS_ALL, 0, true);
    return a;
}

TEST(test_caps)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    CLT_FREED ocl_capabilities *a = sample(&desc);
    assert_int_equal(ocl_capabilities_caps(a, 0, true), OCL_CAP_LOCAL | OCL_CAP_MMA_BF16);
    assert_int_equal(ocl_capabilities_caps(a, OCL_CAP_MMA_F16 | OCL_CAP_MMA_TF32, true),
                     OCL_CAP_LOCAL | OCL_CAP_MMA_BF16 |
                         OCL_CAP_MMA_TF32); /* not mma_f16, whose self-test crashed */
    assert_null(ocl_capabilities_refusal(a, true));
    ocl_cap_report r = ocl_capabilities_report(a, OCL_CAP_MMA_F16_INDEX);
    assert_int_equal(r.answer, OCL_ANSWER_CRASHED);
    assert_string_equal(r.reason, "self-test mma_f16: SIGSEGV");
    assert_int_equal(ocl_capabilities_report(a, OCL_CAP_WG256_INDEX).answer, OCL_ANSWER_HUNG);
    assert_int_equal(ocl_capabilities_report(a, OCL_CAP_FP64_INDEX).answer, OCL_ANSWER_NOT_ASKED);
    assert_int_equal(ocl_capabilities_caps(a, 0, false), OCL_CAP_LOCAL | OCL_CAP_MMA_BF16 | OCL_CAP_MMA_F16);
    set(a, "test:floor", OCL_ANSWER_WRONG, 0, "off by one");
    assert_null(ocl_capabilities_refusal(a, false));
    assert_string_equal(ocl_capabilities_refusal(a, true)->name, "test:floor");
    for (int i = 0; i < OCL_ANSWER_COUNT; i++) {
        ocl_answer back;
        assert_true(ocl_answer_from_name(ocl_answer_name((ocl_answer)i), &back));
        assert_int_equal(back, i);
        assert_int_equal(ocl_answer_is_loss((ocl_answer)i), i >= OCL_ANSWER_WRONG);
    }
}

/* Sizes are used only if the answer of their test is yes. */
TEST(test_sizes)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    CLT_FREED ocl_capabilities *a = sample(&desc);
    ocl_item item = {.name = "local_report", .answer = OCL_ANSWER_NO, .value = 2};
    assert_ok(ocl_capabilities_set(a, &item));
    ocl_capabilities_sizes(a, &desc);
    assert_int_equal(desc.local_report_factor, 0);
    item.answer = OCL_ANSWER_YES;
    assert_ok(ocl_capabilities_set(a, &item));
    item = (ocl_item){.name = "local_memory_64", .answer = OCL_ANSWER_YES, .value = 64 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    ocl_capabilities_sizes(a, &desc);
    assert_int_equal(desc.local_report_factor, 2);
    assert_int_equal(desc.local_proven_bytes, 64 << 10);
    assert_int_equal(desc.local_retargeted_bytes, 0);
    item = (ocl_item){.name = "wgmma_memory_224", .answer = OCL_ANSWER_NO, .value = 224 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    item = (ocl_item){.name = "wgmma_memory_192", .answer = OCL_ANSWER_YES, .value = 192 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    ocl_capabilities_sizes(a, &desc);
    assert_int_equal(desc.local_proven_bytes, 64 << 10);
    assert_int_equal(desc.local_retargeted_bytes, 192 << 10);
    assert_int_equal(desc.local_argument_bytes, 0);
    item = (ocl_item){.name = "local_argument_192", .answer = OCL_ANSWER_NO, .value = 192 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    item = (ocl_item){.name = "local_argument_163", .answer = OCL_ANSWER_YES, .value = 163 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    item = (ocl_item){.name = "local_argument_99", .answer = OCL_ANSWER_YES, .value = 99 << 10};
    assert_ok(ocl_capabilities_set(a, &item));
    ocl_capabilities_sizes(a, &desc);
    assert_int_equal(desc.local_proven_bytes, 64 << 10);
    assert_int_equal(desc.local_argument_bytes, 163 << 10);
}

/* A self-test in which the device was lost is distinguished from such a probe. */
TEST(test_lost_tests)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    CLT_FREED ocl_capabilities *a = sample(&desc);
    assert_true(ocl_item_is_test(ocl_capabilities_find(a, "test:floor")));
    assert_false(ocl_item_is_test(ocl_capabilities_find(a, "wg256")));
    assert_true(ocl_capabilities_lost_test(a));
    set(a, "test:mma_f16", OCL_ANSWER_YES, OCL_CAP_MMA_F16, "");
    assert_false(ocl_capabilities_lost_test(a)); /* wg256 hung in a probe */
}

FIXTURE(set_cache)
{
    return setenv("CLTRAIN_CACHE_DIR", test_folder(), 1);
}

TEST(test_round_trip)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    ocl_capabilities *a = sample(&desc), *b = calloc(1, sizeof *b);
    clt_str text = {0}, again = {0};
    assert_ok(ocl_capabilities_print(a, &desc, &text));
    b->key = a->key;
    assert_ok(ocl_capabilities_parse(text.text, text.length, "here", b));
    assert_true(b->remembered);
    assert_true(ocl_capabilities_were_asked(b, OCL_CAPS_ALL, 0, true));
    /* With a mask that leaves out a capability that counts, other self-tests may be needed; with a mask
     * that leaves out one that does not count, the answers hold.
     */
    assert_false(ocl_capabilities_were_asked(b, ~(uint32_t)OCL_CAP_LOCAL, 0, true));
    assert_true(ocl_capabilities_were_asked(b, ~(uint32_t)OCL_CAP_LOCAL, 0, false));
    assert_true(ocl_capabilities_were_asked(b, ~(uint32_t)OCL_CAP_FP16, 0, true));
    assert_false(ocl_capabilities_were_asked(b, OCL_CAPS_ALL, OCL_CAP_MMA_TF32, true));
    assert_int_equal(b->count, a->count);
    assert_memory_equal(b->items, a->items, sizeof a->items);
    assert_ok(ocl_capabilities_print(b, &desc, &again));
    assert_string_equal(text.text, again.text);
    again.length = 0;
    /* A failed call may succeed next time: the answer is not kept, and everything may be asked. */
    set(a, "fp64", OCL_ANSWER_FAILED, OCL_CAP_FP64, "CL_OUT_OF_RESOURCES");
    assert_ok(ocl_capabilities_print(a, &desc, &again));
    memset(b, 0, sizeof *b);
    b->key = a->key;
    assert_ok(ocl_capabilities_parse(again.text, again.length, "here", b));
    assert_null(ocl_capabilities_find(b, "fp64"));
    assert_false(ocl_capabilities_were_asked(b, OCL_CAPS_ALL, 0, false));
    assert_false(ocl_capabilities_were_asked(b, OCL_CAPS_ALL, 0, true));
    assert_int_equal(b->count, a->count - 1);
    clt_str_free(&text);
    clt_str_free(&again);
    free(a);
    free(b);
}

/* What the file records about the device `spec`. */
static ocl_capabilities *load_as(const char *path, ocl_device_desc *desc, const char *spec, uint64_t key)
{
    ocl_capabilities *a = calloc(1, sizeof *a);
    assert_non_null(a);
    snprintf(desc->spec, sizeof desc->spec, "%s", spec);
    assert_ok(ocl_capabilities_load(path, desc, key, a));
    return a;
}

/* Two devices of one model share a file. A refusal of one is kept for this device alone, whichever is asked
 * last, until its answer changes. */
TEST(test_twins)
{
    ocl_device_desc desc;
    char *path, *lock;
    ocl_desc_generic(&desc);
    ocl_capabilities *good = sample(&desc), *bad = sample(&desc), *a;
    set(bad, OCL_ITEM_BASIC, OCL_ANSWER_HUNG, 0, "no answer");
    assert_ok(ocl_capabilities_path(&desc, good->key, &path, &lock));
    snprintf(desc.spec, sizeof desc.spec, "0:1");
    assert_ok(ocl_capabilities_save(path, &desc, bad));
    a = load_as(path, &desc, "0:0", good->key);
    assert_int_equal(a->count, 0); /* nothing is known about this device yet */
    free(a);
    assert_ok(ocl_capabilities_save(path, &desc, good));
    a = load_as(path, &desc, "0:1", good->key);
    assert_non_null(ocl_capabilities_refusal(a, true));
    assert_string_equal(ocl_capabilities_refusal(a, true)->reason, "no answer");
    free(a);
    snprintf(desc.spec, sizeof desc.spec, "0:2");
    set(bad, OCL_ITEM_BASIC, OCL_ANSWER_CRASHED, 0, "SIGSEGV");
    assert_ok(ocl_capabilities_save(path, &desc, bad));
    const char *const specs[] = {"0:0", "0:1", "0:2"}, *const reasons[] = {NULL, "no answer", "SIGSEGV"};
    for (int i = 0; i < 3; i++) {
        a = load_as(path, &desc, specs[i], good->key);
        const ocl_item *refusal = ocl_capabilities_refusal(a, true);
        assert_int_equal(a->count, good->count);
        if (reasons[i])
            assert_string_equal(refusal->reason, reasons[i]);
        else
            assert_null(refusal);
        free(a);
    }
    snprintf(desc.spec, sizeof desc.spec, "0:1"); /* asked again, with a good answer */
    assert_ok(ocl_capabilities_save(path, &desc, good));
    a = load_as(path, &desc, "0:1", good->key);
    assert_null(ocl_capabilities_refusal(a, true));
    free(a);
    a = load_as(path, &desc, "0:2", good->key);
    assert_non_null(ocl_capabilities_refusal(a, true));
    free(a);
    assert_int_equal(unlink(path), 0);
    free(path);
    free(lock);
    free(good);
    free(bad);
}

/* A device number means another device when the environment shows other devices, so a refusal is kept
 * together with that environment. */
TEST(test_visible_devices)
{
    static const char *const settings[][2] = {
        {"CUDA_VISIBLE_DEVICES", "0"},   {"CUDA_VISIBLE_DEVICES", "1"}, {"CUDA_VISIBLE_DEVICES", "0,1"},
        {"NVIDIA_VISIBLE_DEVICES", "1"}, {"ROCR_VISIBLE_DEVICES", "1"}, {"ZE_AFFINITY_MASK", "1"},
        {"CLTRAIN_TEST_UNRELATED", "1"}};
    enum { COUNT = sizeof settings / sizeof settings[0], UNRELATED = COUNT - 1 };
    ocl_device_desc desc;
    char *path, *lock, reason[COUNT][32];
    ocl_desc_generic(&desc);
    ocl_capabilities *bad = sample(&desc);
    for (int i = 0; i < COUNT; i++)
        unsetenv(settings[i][0]);
    assert_ok(ocl_capabilities_path(&desc, bad->key, &path, &lock));
    snprintf(desc.spec, sizeof desc.spec, "0:0");
    for (int i = 0; i < UNRELATED; i++) {
        setenv(settings[i][0], settings[i][1], 1);
        snprintf(reason[i], sizeof reason[i], "refused %d", i);
        set(bad, OCL_ITEM_BASIC, OCL_ANSWER_HUNG, 0, reason[i]);
        assert_ok(ocl_capabilities_save(path, &desc, bad));
        unsetenv(settings[i][0]);
    }
    for (int i = 0; i < COUNT; i++) {
        setenv(settings[i][0], settings[i][1], 1);
        ocl_capabilities *a = load_as(path, &desc, "0:0", bad->key);
        const ocl_item *refusal = ocl_capabilities_refusal(a, true);
        if (i == UNRELATED) {
            assert_null(refusal); /* nor is the device refused when none of the variables is set */
        } else {
            assert_non_null(refusal);
            assert_string_equal(refusal->reason, reason[i]);
        }
        free(a);
        unsetenv(settings[i][0]);
    }
    assert_int_equal(unlink(path), 0);
    free(path);
    free(lock);
    free(bad);
}

/* The text with another boot id in it, sealed again. */
static void restart(clt_str *text)
{
    char *at = strstr(text->text, "\"boot\": \""), *seal = strstr(text->text, ",\n  \"hash\"");
    assert_non_null(at);
    assert_non_null(seal);
    at[9] = at[9] == 'x' ? 'y' : 'x';
    *seal = '\0';
    text->length = strlen(text->text);
    assert_ok(clt_json_seal(text, 0, "hash"));
}

/* Each denial is kept once; denials and refusals are kept until the machine is started again. */
TEST(test_unsupported)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    ocl_capabilities *a = sample(&desc), *b = calloc(1, sizeof *b);
    ocl_unsupported more = {.caps = OCL_CAP_PREFETCH, .count = 2};
    clt_str text = {0};
    snprintf(more.list[0].variant, sizeof more.list[0].variant, "gemm/tile");
    snprintf(more.list[0].form, sizeof more.list[0].form, "bm=64 bn=64");
    snprintf(more.list[1].variant, sizeof more.list[1].variant, "update/group");
    assert_false(ocl_unsupported_any(&a->unsupported));
    ocl_unsupported_add(&a->unsupported, &more);
    ocl_unsupported_add(&a->unsupported, &more);
    assert_true(ocl_unsupported_any(&a->unsupported));
    assert_int_equal(a->unsupported.count, 2);
    a->n_refused = 1;
    snprintf(a->refused[0].spec, sizeof a->refused[0].spec, "0:1");
    a->refused[0].item = (ocl_item){.name = OCL_ITEM_BASIC, .answer = OCL_ANSWER_HUNG};
    assert_ok(ocl_capabilities_print(a, &desc, &text));
    b->key = a->key;
    assert_ok(ocl_capabilities_parse(text.text, text.length, "here", b));
    assert_memory_equal(&b->unsupported, &a->unsupported, sizeof a->unsupported);
    assert_int_equal(b->n_refused, 1);
    for (int i = 0; i < 100; i++) { /* entries beyond the maximum are dropped */
        snprintf(more.list[0].form, sizeof more.list[0].form, "bm=%d", i);
        ocl_unsupported_add(&b->unsupported, &more);
    }
    assert_int_equal(b->unsupported.count, OCL_GIVEN_UP_MAX);
    restart(&text);
    memset(b, 0, sizeof *b);
    b->key = a->key;
    assert_ok(ocl_capabilities_parse(text.text, text.length, "here", b));
    assert_false(ocl_unsupported_any(&b->unsupported));
    assert_int_equal(b->n_refused, 0);
    assert_int_equal(b->count, a->count);
    clt_str_free(&text);
    free(a);
    free(b);
}

/* Damage to any byte, or a cut anywhere, makes the text invalid. */
TEST(test_damage)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    ocl_capabilities *a = sample(&desc), *b = calloc(1, sizeof *b);
    clt_str text = {0};
    assert_ok(ocl_capabilities_print(a, &desc, &text));
    for (size_t i = 0; i < text.length; i++) {
        char kept = text.text[i];
        memset(b, 0, sizeof *b);
        b->key = a->key;
        text.text[i] = (char)(kept ^ (1 << i % 7));
        assert_int_equal(ocl_capabilities_parse(text.text, text.length, "here", b), CLT_EDATA);
        text.text[i] = kept;
        memset(b, 0, sizeof *b);
        b->key = a->key;
        assert_int_equal(ocl_capabilities_parse(text.text, i, "here", b), CLT_EDATA);
    }
    b->key = a->key + 1;
    assert_int_equal(ocl_capabilities_parse(text.text, text.length, "here", b), CLT_EDATA);
    assert_contains(clt_error_text(), "another device, driver or version of cltrain");
    clt_str_free(&text);
    free(a);
    free(b);
}

/* A complete file of another format, or without one of the members, is invalid as well. */
TEST(test_missing)
{
    static const char *const members[] = {"\"format\"",   "\"version\"", "\"key\"",     "\"boot\"",
                                          "\"tested\"",   "\"probed\"",  "\"refused\"", "\"capabilities\"",
                                          "\"variants\"", "\"denials\"", "\"answers\"", "\"item\"",
                                          "\"answer\"",   "\"drops\"",   "\"value\"",   "\"reason\""};
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    ocl_capabilities *a = sample(&desc), *b = calloc(1, sizeof *b);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        clt_str text = {0}, sealed = {0};
        assert_ok(ocl_capabilities_print(a, &desc, &text));
        char *at = strstr(text.text, members[i]), *seal = strstr(text.text, ",\n  \"hash\"");
        assert_non_null(at);
        assert_non_null(seal);
        at[1] = 'x'; /* another name */
        *seal = '\0';
        clt_str_append(&sealed, text.text);
        assert_ok(clt_json_seal(&sealed, 0, "hash"));
        memset(b, 0, sizeof *b);
        b->key = a->key;
        assert_int_equal(ocl_capabilities_parse(sealed.text, sealed.length, "here", b), CLT_EDATA);
        assert_null(strstr(clt_error_text(), "own hash"));
        clt_str_free(&text);
        clt_str_free(&sealed);
    }
    free(a);
    free(b);
}

/* Files: private, replaced, ignored when they are not regular or not complete. */
TEST(test_files)
{
    ocl_device_desc desc;
    struct stat info;
    char *path, *lock;
    ocl_desc_generic(&desc);
    ocl_capabilities *a = sample(&desc), *b = calloc(1, sizeof *b);
    assert_ok(ocl_capabilities_path(&desc, a->key, &path, &lock));
    assert_ok(ocl_capabilities_load(path, &desc, a->key, b));
    assert_int_equal(b->count, 0);
    assert_false(b->remembered);
    assert_ok(ocl_capabilities_save(path, &desc, a));
    assert_ok(ocl_capabilities_load(path, &desc, a->key, b));
    assert_int_equal(b->count, a->count);
    assert_ok(ocl_capabilities_load(path, &desc, a->key + 1, b)); /* logged, and forgotten */
    assert_int_equal(b->count, 0);
    assert_int_equal(b->key, a->key + 1);
    assert_ok(clt_file_write(path, "{}", 2));
    assert_ok(ocl_capabilities_load(path, &desc, a->key, b));
    assert_int_equal(b->count, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(ocl_capabilities_load(path, &desc, a->key, b)); /* and the load does not wait for a writer */
    assert_int_equal(b->count, 0);
    assert_int_equal(unlink(path), 0);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(chmod(path, 0777), 0);
    free(path);
    free(lock);
    assert_int_equal(ocl_capabilities_path(&desc, a->key, &path, &lock), CLT_ESTORAGE);
    free(a);
    free(b);
}

/* Everything that can change the answers changes the key. */
TEST(test_key)
{
    ocl_device_desc desc;
    uint64_t key, other;
    ocl_desc_generic(&desc);
    assert_ok(ocl_capabilities_key(&desc, OCL_STYLE_ASKED, &key));
    assert_ok(ocl_capabilities_key(&desc, OCL_STYLE_ASKED, &other));
    assert_true(key == other);
    snprintf(desc.driver, sizeof desc.driver, "another");
    assert_ok(ocl_capabilities_key(&desc, OCL_STYLE_ASKED, &other));
    assert_true(key != other);
    ocl_desc_generic(&desc);
    setenv("CLTRAIN_EMULATE", "mma_f16", 1);
    assert_ok(ocl_capabilities_key(&desc, OCL_STYLE_ASKED, &other));
    unsetenv("CLTRAIN_EMULATE");
    assert_true(key != other);
    assert_ok(ocl_capabilities_key(&desc, OCL_STYLE_GROUPS, &other));
    assert_true(key != other);
}

TEST_PROGRAM(.set_up = set_cache);
