/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes a checkpoint self-contained, without a device: data.json written and read (also hostile ones),
 * the fingerprint of data, the bytes of a text that its tokens stand for, which keys a resumed run may
 * change, the run folder's config kept when it changes, paths found from another folder, checkpoints with
 * and without these files.
 * ctest-labels: quick */
#include "tests/unit/data/tokenizer_test.h"

#include <math.h>
#include <stdatomic.h>

#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/fingerprint.h"
#include "engine/data/open/data_paths.h"
#include "engine/report/write/rundir_config.h"
#include "engine/train/eval/evaluate.h"
#include "tests/unit/train/checkpoint_save.h"

static clt_data_facts example(void)
{
    clt_data_facts f = {.type = "idx",
                        .description = "idx: 60000 samples",
                        .samples = 60000,
                        .bytes = 47040016,
                        .n_fields = 2,
                        .scale = 0.00392156862745098,
                        .mean = 0.5,
                        .std = 0.25,
                        .classes = 10,
                        .tokens = 77,
                        .vocabulary = 300,
                        .bytes_per_token = 2.9333333333333336,
                        .tokenizer = "bpe",
                        .tokenizer_hash = 0xfedcba9876543210u,
                        .fingerprint = "0123456789abcdef",
                        .eval_fingerprint = "00000000deadbeef",
                        .folder = "/home/\xc3\xa9 x",
                        .folder_from_run = "../.."};
    static char names[] = "zero\0\xc3\xa9 \"1\"";
    f.class_names = (clt_str){.text = names, .length = sizeof names};
    f.n_class_names = 2;
    f.fields[0] = (clt_data_facts_field){"x", CLT_U8, clt_shape2(28, 28), false, -1};
    f.fields[1] = (clt_data_facts_field){"y", CLT_I32, {.ndim = 0}, true, 9};
    return f;
}

static clt_str printed(const clt_data_facts *facts)
{
    clt_str text = {0};
    must(clt_data_facts_print(facts, &text), "printing");
    return text;
}

TEST(facts_read_back_as_they_were)
{
    clt_data_facts f = example(), g, none = {.type = "synthetic", .n_fields = 1, .std = 1};
    none.fields[0] = (clt_data_facts_field){"x", CLT_F32, clt_shape1(3), false, -1};
    const clt_data_facts *all[] = {&f, &none};
    for (int i = 0; i < 2; i++) {
        clt_str a = printed(all[i]);
        must(clt_data_facts_parse(a.text, a.length, "data.json", &g), "parsing");
        CLT_SCOPED(clt_str) b = printed(&g);
        assert_string_equal(a.text, b.text);
        clt_data_facts_free(&g);
        clt_str_free(&a);
    }
    CLT_SCOPED(clt_str) text = printed(&f);
    must(clt_data_facts_parse(text.text, text.length, "data.json", &g), "parsing");
    assert_memory_equal(&f.fields, &g.fields, sizeof f.fields);
    assert_true(g.tokenizer_hash == f.tokenizer_hash);
    clt_data_facts_free(&g);
}

/* One member replaced by something else. */
static void replaced(const char *text, const char *from, const char *to, clt_str *out)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    clt_str_append_n(out, text, (size_t)(at - text));
    clt_str_printf(out, "%s%s", to, at + strlen(from));
    must(clt_str_check(out), "text");
}

TEST(hostile_facts_are_refused_with_a_reason)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"cltrain-data\"", "\"other\"", "\"format\""},
        {"\"format_version\": 1", "\"format_version\": 2", "newer cltrain"},
        {"\"format_version\": 1", "\"format_version\": 0", "\"format_version\""},
        {"\"samples\": 60000", "\"samples\": -1", "\"samples\""},
        {"\"samples\": 60000", "\"samples\": 1e300", "\"samples\""},
        {"\"samples\": 60000", "\"samples\": \"many\"", "\"samples\""},
        {"\"dtype\": \"u8\"", "\"dtype\": \"u9\"", "\"dtype\""},
        {"\"name\": \"x\"", "\"name\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"", "\"name\""},
        {"\"name\": \"y\"", "\"name\": \"x\"", "different names"},
        {"28,", "0,", "\"shape\""},
        {"28,", "-28,", "\"shape\""},
        {"28,", "2147483647, 2147483647,", "\"shape\""},
        {"28,", "1,1,1,1,1,", "\"shape\""},
        {"\"shape\": [", "\"shape\": [\"a\",", "\"shape\""},
        {"\"index\": true", "\"index\": 1", "\"index\""},
        {"\"largest\": 9", "\"largest\": 99999999999", "\"largest\""},
        {"\"fields\": [", "\"fields\": [3,", "\"fields\""},
        {"\"fields\": [", "\"field\": [], \"fields\": 7, \"rest\": [", "\"fields\""},
        {"\"std\": 0.25", "\"std\": null", "\"std\""},
        {"\"std\": 0.25", "\"std\": 1e300", "\"std\""},
        {"\"classes\": 10", "\"classes\": 0", "\"classes\""},
        {"\"zero\"", "7", "\"class_names\""},
        {"\"zero\"", "\"\\u001b[2J\"", "\"class_names\""},
        {"\"class_names\": [", "\"class_names\": 1, \"rest\": [", "\"class_names\""},
        {"\"vocabulary\": 300", "\"vocabulary\": 99999999", "\"vocabulary\""},
        {"\"tokenizer\": \"bpe\"", "\"tokenizer\": \"../../x\"", "\"tokenizer\""},
        {"fedcba9876543210", "FEDCBA9876543210", "hash"},
        {"0123456789abcdef", "0123", "hash"},
        {"\"bytes_per_token\": 2", "\"bytes_per_token\": -2", "\"bytes_per_token\""},
        {"idx: 60000", "idx\\u001b[2J", "control characters"},
        {"\"type\": \"idx\"", "\"type\": \"idx\", \"type\": \"npy\"", "type"},
    };
    clt_data_facts f = example(), g;
    clt_str text = printed(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_str) bad = {0};
        replaced(text.text, cases[i].from, cases[i].to, &bad);
        clt_status status = clt_data_facts_parse(bad.text, bad.length, "data.json", &g);
        if (status != CLT_ECHECKPOINT || !strstr(clt_error_text(), cases[i].says) ||
            !strstr(clt_error_text(), "data.json"))
            fail_msg("%s -> %s: %s: %s", cases[i].from, cases[i].to, clt_status_name(status),
                     clt_error_text());
        assert_int_equal(g.n_fields, 0); /* nothing is left of a partial read */
    }
    clt_str_free(&text);
}

/* A cut anywhere, and bytes changed at random: the text is refused or read without harm. */
TEST(damaged_facts_do_no_harm)
{
    clt_data_facts f = example(), g;
    CLT_SCOPED(clt_str) text = printed(&f);
    CLT_FREED char *copy = malloc(text.length);
    assert_non_null(copy);
    for (size_t n = 0; n + 2 < text.length; n++)
        assert_int_equal(clt_data_facts_parse(text.text, n, "data.json", &g), CLT_ECHECKPOINT);
    for (uint32_t i = 0; i < 20000; i++) {
        memcpy(copy, text.text, text.length);
        for (uint32_t k = 0; k < 1 + i % 4; k++) {
            uint32_t word = clt_rng_u32(5, CLT_RNG_DATA, i, k, 0);
            copy[word % text.length] = "0123456789{}[]\",:-e.xy\\\x01\xff"[(word >> 16) % 26];
        }
        clt_status status = clt_data_facts_parse(copy, text.length, "data.json", &g);
        assert_true(status == CLT_OK || status == CLT_ECHECKPOINT);
        assert_in_range(g.n_fields, 0, CLT_MAX_FIELDS);
        clt_data_facts_free(&g);
    }
}

/* --- fingerprints --- */

static uint64_t print_of(const void *bytes, uint64_t size)
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    clt_fingerprint_add(&state, bytes, size);
    return clt_hash64_end(&state);
}

TEST(fingerprints_see_every_byte_of_small_files)
{
    char bytes[1000];
    memset(bytes, 'a', sizeof bytes);
    uint64_t first = print_of(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        assert_true(print_of(bytes, sizeof bytes) != first);
        bytes[i] ^= 1;
    }
    assert_true(print_of(bytes, sizeof bytes - 1) != first);
    assert_true(print_of(bytes, sizeof bytes) == first);
}

TEST(fingerprints_of_large_files_see_size_and_both_ends)
{
    uint64_t size = CLT_FINGERPRINT_WHOLE + 12345;
    CLT_FREED char *bytes = calloc(size + 1, 1);
    assert_non_null(bytes);
    uint64_t first = print_of(bytes, size);
    assert_true(print_of(bytes, size + 1) != first);
    assert_true(print_of(bytes, size - 1) != first);
    bytes[0] = bytes[size - 1] = 1;
    assert_true(print_of(bytes, size) != first);
    bytes[0] = 0;
    assert_true(print_of(bytes, size) != first);
}

static clt_source *open_data(const char *members, clt_split split)
{
    CLT_SCOPED(clt_config) *config = NULL;
    clt_source *source;
    must(parse_data_config(members, &config), "config");
    must(clt_source_open(config, split, &source), "data");
    return source;
}

/* The same text in one file, in two, renamed, or packed. */
TEST(the_fingerprint_stays_when_data_moves)
{
    static const char text[] = "all work and no play makes a dull text, all work and no play";
    static const char *const members[] = {"\"type\":\"text\",\"path\":\"%D/whole.txt\",\"window\":4",
                                          "\"type\":\"text\",\"path\":[\"%D/one\",\"%D/two\"],\"window\":4",
                                          "\"type\":\"text\",\"path\":\"%D/packed.gz\",\"window\":4"};
    char first[CLT_HASH64_TEXT], other[CLT_HASH64_TEXT];
    size_t n = sizeof text - 1;
    put_file("whole.txt", text, n);
    put_file("one", text, 20);
    put_file("two", text + 20, n - 20);
    put_gzip("packed.gz", text, n);
    for (int i = 0; i < 3; i++) {
        CLT_SCOPED(clt_source) *source = open_data(members[i], CLT_SPLIT_TRAIN);
        clt_source_fingerprint(source, i ? other : first);
        assert_int_equal(strlen(first), 16);
        if (i)
            assert_string_equal(first, other);
    }
    put_file("two", text + 20, n - 21);
    clt_source *source = open_data(members[1], CLT_SPLIT_TRAIN);
    assert_string_not_equal(first, clt_source_fingerprint(source, other));
    clt_source_close(source);
    source = open_data("\"type\":\"synthetic\",\"shape\":[3],\"classes\":2", CLT_SPLIT_TRAIN);
    assert_string_equal(clt_source_fingerprint(source, other), ""); /* it follows from the config */
    clt_source_close(source);
}

/* --- bytes of tokens --- */

static int64_t all_bytes(const clt_source *source)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < source->samples; i++)
        bytes += source->type->target_bytes(source, i, -1);
    return bytes;
}

/* An evaluation counts each target once: all bytes except the first token's. */
TEST(targets_stand_for_the_bytes_of_the_text)
{
    size_t size;
    CLT_FREED char *text = long_text(9, &size);
    CLT_SCOPED(clt_tokenizer) *t = small_tokenizer();
    clt_ids ids = {0};
    put_file("text.txt", text, size);
    must(clt_tokenizer_save(t, in_dir("tokenizer.json")), "saving");
    must(clt_tokenizer_encode(t, text, size, &ids), "encoding");
    int64_t first = clt_tokenizer_text_bytes(t, ids.id[0]);
    for (int context = 1; context < 40; context += 6) {
        CLT_SCOPED(clt_config) *config = NULL;
        CLT_SCOPED(clt_source) *source = NULL;
        char whole[4096];
        (void)snprintf(
            whole, sizeof whole,
            "{\"model\":{\"type\":\"gpt\",\"layers\":1,\"heads\":1,\"channels\":4,\"context\":%d},"
            "\"data\":{\"type\":\"text\",\"path\":\"%s/text.txt\",\"tokenizer\":\"%s/tokenizer.json\","
            "\"split\":0}}",
            context, test_folder(), test_folder());
        must(clt_config_parse(whole, "test", NULL, 0, &config), "config");
        must(clt_source_open(config, CLT_SPLIT_TRAIN_ONCE, &source), "data");
        assert_int_equal(all_bytes(source), (int64_t)size - first);
        assert_int_equal(source->tokens, (int64_t)ids.count);
        assert_true(fabs(source->bytes_per_token - (double)size / (double)ids.count) < 1e-12);
    }
    assert_int_equal(clt_tokenizer_text_bytes(t, -1), 0);
    assert_int_equal(clt_tokenizer_text_bytes(t, clt_tokenizer_vocab(t)), 0);
    free(ids.id);
}

TEST(perplexity_and_bits_follow_from_the_sum)
{
    clt_eval_metrics m;
    clt_eval_language(100 * log(2) * 8, 100, 400, &m);
    assert_true(fabs(m.perplexity - 256) < 1e-9);
    assert_true(fabs(m.bits_per_byte - 2) < 1e-12);
    clt_eval_language(5, 10, 0, &m); /* the number of bytes is not known */
    assert_true(isnan(m.bits_per_byte) && m.perplexity > 1);
    clt_eval_language(0, 0, 0, &m);
    assert_true(isnan(m.perplexity) && isnan(m.bits_per_byte));
}

/* --- keys of a resumed run --- */

static const char net[] =
    "{\"model\":{\"type\":\"mlp\",\"hidden\":[4]},\"data\":{\"type\":\"idx\",\"path\":\"a\","
    "\"targets\":\"b\"},\"train\":{\"steps\":10}}";

static clt_config *net_config(const char *override)
{
    clt_config *config;
    must(clt_config_parse(net, "net.json", &override, override ? 1 : 0, &config), "config");
    return config;
}

TEST(keys_are_of_five_kinds)
{
    static const struct {
        const char *override;
        unsigned kind;
    } cases[] = {{"train.steps=11", CLT_KEYS_LENGTH},
                 {"train.epochs=3", CLT_KEYS_LENGTH},
                 {"schedule.type=cosine", CLT_KEYS_LENGTH},
                 {"data.path=c", CLT_KEYS_DATA},
                 {"data.targets=c", CLT_KEYS_DATA},
                 {"train.seed=2", CLT_KEYS_FIXED},
                 {"model.hidden=[5]", CLT_KEYS_FIXED},
                 {"optimizer.learning_rate=1", CLT_KEYS_RATE},
                 {"optimizer.weight_decay=1", CLT_KEYS_RATE},
                 {"optimizer.clip=7", CLT_KEYS_FIXED},
                 {"data.micro_batch=2", 0},
                 {"checkpoint.every=5", 0},
                 {"device.spec=cpu", 0},
                 {"log.level=warn", 0},
                 {"parallel.bind=never", 0},
                 {"data.workers=2", 0}};
    CLT_SCOPED(clt_config) *was = net_config(NULL);
    CLT_SCOPED(clt_str) text = {0};
    must(clt_config_print(was, true, &text), "printing");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_config) *is = net_config(cases[i].override);
        for (unsigned kind = 1; kind <= CLT_KEYS_RATE; kind <<= 1) {
            CLT_SCOPED(clt_str) diff = {0};
            must(clt_config_diff(text.text, is, kind, &diff), "comparing");
            if ((diff.length > 0) != (kind == cases[i].kind))
                fail_msg("%s, kind %u: %s", cases[i].override, kind, diff.text ? diff.text : "nothing");
        }
    }
}

/* The config as printed by a program that knew neither data.fill nor data.standardize. */
static char *older_print(const clt_config *config)
{
    CLT_SCOPED(clt_str) text = {0};
    char *to;
    must(clt_config_print(config, true, &text), "printing");
    must(clt_alloc(&to, text.length + 1, 1, "test"), "test");
    char *const older = to;
    for (const char *line = text.text; *line;) {
        size_t n = strcspn(line, "\n") + (line[strcspn(line, "\n")] != '\0');
        char own[4096];
        assert_true(n < sizeof own);
        memcpy(own, line, n);
        own[n] = '\0';
        if (!strstr(own, "fill\"") && !strstr(own, "standardize\"")) {
            memcpy(to, line, n);
            to += n;
        }
        line += n;
    }
    return older;
}

/* Older runs of other data formats continue without the keys of tables; older runs of tables need the
 * values that repeat what the older program did. */
TEST(keys_of_tables_bind_older_tables_alone)
{
    static const char *const data[] = {"\"type\": \"synthetic\", \"shape\": [2], \"classes\": 2",
                                       "\"type\": \"npy\", \"path\": \"x.npy\", \"targets\": \"y.npy\"",
                                       "\"type\": \"idx\", \"path\": \"x\", \"targets\": \"y\"",
                                       "\"type\": \"csv\", \"path\": \"t.csv\""};
    static const char *const as_then[] = {"data.fill=refuse", "data.standardize=false"};
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        char text[512];
        clt_config *config, *given;
        bool table = i == 3;
        snprintf(text, sizeof text, "{\"model\": {\"type\": \"mlp\", \"hidden\": [2]}, \"data\": {%s}}",
                 data[i]);
        must(clt_config_parse(text, "a config", NULL, 0, &config), data[i]);
        char *older = older_print(config);
        assert_int_equal(clt_config_check_fixed(older, config, "run"), table ? CLT_ECONFIG : CLT_OK);
        if (table) {
            assert_non_null(
                strstr(clt_error_text(), "give data.fill=refuse data.standardize=false, which is"));
            assert_non_null(strstr(clt_error_text(), "data.fill: was \"refuse\", is \"mean\""));
            must(clt_config_parse(text, "a config", as_then, 2, &given), "with the values of then");
            must(clt_config_check_fixed(older, given, "run"), "comparing");
            clt_config_destroy(given);
        }
        clt_error_clear();
        free(older);
        clt_config_destroy(config);
    }
}

static char *read_all(const char *path)
{
    char *text;
    size_t size;
    must(clt_file_read(path, false, 0, CLT_EDATA, &text, &size), path);
    return text;
}

TEST(the_earlier_config_is_kept)
{
    CLT_SCOPED(clt_config) *config = net_config(NULL);
    CLT_SCOPED(clt_str) first = {0};
    must(clt_mkdir_p(in_dir("folder")), "folder");
    must(clt_config_print(config, true, &first), "printing");
    put_file("folder/config.resolved.json", first.text, first.length);
    must(clt_resolved_config_update(in_dir("folder"), config), "nothing new");
    assert_false(clt_file_exists(in_dir("folder/config.resolved.1.json")));
    for (int i = 1; i <= 3; i++) {
        char steps[32], name[64], want[32];
        (void)snprintf(steps, sizeof steps, "train.steps=%d", 10 + i);
        CLT_SCOPED(clt_config) *longer = net_config(steps);
        char *before = read_all(in_dir("folder/config.resolved.json"));
        (void)snprintf(name, sizeof name, "folder/config.resolved.%d.json", i);
        if (i == 2) /* a crash after the old config was copied and before the new one was written */
            put_file(name, before, strlen(before));
        must(clt_resolved_config_check(in_dir("folder"), longer), "allowed");
        must(clt_resolved_config_update(in_dir("folder"), longer), "update");
        char *kept = read_all(in_dir(name)), *now = read_all(in_dir("folder/config.resolved.json"));
        assert_string_equal(kept, before);
        (void)snprintf(want, sizeof want, "\"steps\": %d,", 10 + i);
        assert_non_null(strstr(now, want));
        free(before);
        free(kept);
        free(now);
    }
    assert_false(clt_file_exists(in_dir("folder/config.resolved.4.json")));
    CLT_SCOPED(clt_config) *other = net_config("train.seed=4");
    assert_int_equal(clt_resolved_config_check(in_dir("folder"), other), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "train.seed: was 1337, is 4"));
}

/* A printed config tells which values were defaults, and reading it back keeps that. */
TEST(origins_survive_printing)
{
    clt_config *config = net_config("train.seed=3"), *again;
    CLT_SCOPED(clt_str) text = {0};
    must(clt_config_print(config, true, &text), "printing");
    must(clt_config_parse(text.text, "config.json", NULL, 0, &again), "parsing");
    assert_string_equal(clt_config_origin(again, "train.epochs"), "default");
    assert_string_equal(clt_config_origin(again, "train.steps"), "file");
    assert_string_equal(clt_config_origin(again, "train.seed"), "file");
    assert_int_equal(clt_config_int(again, "train.seed"), 3);
    clt_config_destroy(again);
    clt_config_destroy(config);
}

/* --- paths --- */

TEST(data_is_found_near_the_run_then_where_it_was)
{
    char near[128], then[128], list[256];
    clt_config *config;
    clt_str missing = {0};
    must(clt_mkdir_p(in_dir("near")), "folder");
    must(clt_mkdir_p(in_dir("then")), "folder");
    (void)snprintf(near, sizeof near, "%s/near", test_folder());
    (void)snprintf(then, sizeof then, "%s/then", test_folder());
    put_file("near/a.txt", "x", 1);
    put_file("then/a.txt", "x", 1);
    put_file("then/b.txt", "x", 1);
    put_file("then/list", "a.txt\nb.txt\nc.txt\n", 18);
    static const char text[] =
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[4]},\"data\":{\"type\":\"text\",\"path\":"
        "[\"a.txt\",\"b.txt\",\"@list\",\"/none/x\"],\"eval_path\":\"e.txt\"}}";
    must(clt_config_parse(text, "text.json", NULL, 0, &config), "config");
    clt_data_places places = {.near = near, .then = then};
    must(clt_data_paths_find(config, &places), "finding");
    assert_int_equal(clt_config_list_count(config, "data.path"), 6); /* the file with the list was read */
    (void)snprintf(list, sizeof list, "%s/a.txt", near);
    assert_string_equal(clt_config_list_string(config, "data.path", 0), list);
    assert_string_equal(clt_config_list_string(config, "data.path", 2), list);
    (void)snprintf(list, sizeof list, "%s/b.txt", then);
    assert_string_equal(clt_config_list_string(config, "data.path", 1), list);
    assert_string_equal(clt_config_list_string(config, "data.path", 4), "c.txt");
    must(clt_data_paths_missing(config, false, &missing), "missing");
    assert_string_equal(missing.text, "data.path 'c.txt', data.path '/none/x'");
    missing.length = 0;
    must(clt_data_paths_missing(config, true, &missing), "missing");
    assert_string_equal(missing.text, "data.eval_path 'e.txt'");
    clt_str_free(&missing);
    clt_config_destroy(config);
    const char *own = "data.path=a.txt"; /* paths on the command line are relative to the current folder */
    must(clt_config_parse(text, "text.json", &own, 1, &config), "config");
    must(clt_data_paths_find(config, &places), "finding");
    assert_string_equal(clt_config_list_string(config, "data.path", 0), "a.txt");
    clt_config_destroy(config);
}

/* --- checkpoints --- */

static void save_step_keeping(const char *folder, int64_t step, const clt_checkpoint_file *files, int n_files,
                              int keep)
{
    static const float values[] = {1, 2, 3};
    clt_named_tensor tensor = {"w", CLT_F32, clt_shape1(3), values};
    clt_checkpoint_content content = {.step = step,
                                      .model = &tensor,
                                      .n_model = 1,
                                      .state_json = "{\"step\": 1}",
                                      .config_json = net,
                                      .files = files,
                                      .n_files = n_files};
    must(save_checkpoint(folder, &content, keep), "saving");
}

static void save_step(const char *folder, int64_t step, const clt_checkpoint_file *files, int n_files)
{
    save_step_keeping(folder, step, files, n_files, 0);
}

static void expect_open(const char *path, clt_status want, const char *says)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    clt_status status = clt_saved_run_open(path, NULL, &saved);
    if (status != want || (says && !strstr(clt_error_text(), says)))
        fail_msg("%s: %s: %s", path, clt_status_name(status), clt_error_text());
    if (status != CLT_OK)
        assert_null(saved);
}

TEST(saved_runs_open_by_any_of_their_folders)
{
    clt_data_facts f = example();
    CLT_SCOPED(clt_str) facts = printed(&f);
    clt_checkpoint_file files[] = {{"config.json", net, sizeof net - 1},
                                   {"data.json", facts.text, facts.length}};
    clt_saved_run *saved;
    const char *paths[] = {"run", "run/", "run/checkpoints", "run/checkpoints/step_2",
                           "run/checkpoints/step_2/"};
    must(clt_mkdir_p(in_dir("run/checkpoints")), "folder");
    put_file("run/config.resolved.json", net, sizeof net - 1);
    save_step(in_dir("run/checkpoints"), 1, files, 1);
    save_step(in_dir("run/checkpoints"), 2, files, 2);
    for (int i = 0; i < 5; i++) {
        must(clt_saved_run_open(in_dir(paths[i]), NULL, &saved), paths[i]);
        assert_int_equal(saved->step, 2);
        assert_true(saved->has_facts);
        assert_true(clt_same_folder(saved->folder, in_dir("run")));
        assert_null(saved->checkpoint->model);
        clt_saved_run_close(saved);
    }
    const char *override = "train.seed=5";
    clt_saved_run_options o = {.overrides = &override, .n_overrides = 1, .tensors = true};
    must(clt_saved_run_open(in_dir("run/checkpoints/step_1"), &o, &saved), "step 1");
    assert_false(saved->has_facts);
    assert_non_null(saved->checkpoint->model);
    assert_int_equal(clt_config_int(saved->config, "train.seed"), 5);
    clt_source *shapes;
    assert_int_equal(clt_saved_run_shapes(saved, &shapes), CLT_ECHECKPOINT);
    clt_saved_run_close(saved);
    must(clt_saved_run_open(in_dir("run"), NULL, &saved), "the run");
    must(clt_saved_run_shapes(saved, &shapes), "shapes");
    assert_int_equal(shapes->fields[1].max_value, 9);
    char byte[28 * 28];
    assert_int_equal(clt_source_read_field(shapes, 0, 0, byte), CLT_EINTERNAL);
    clt_source_close(shapes);
    assert_int_equal(clt_saved_run_need_data(saved, false, "testing"), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "data.path 'a', data.targets 'b'"));
    clt_saved_run_close(saved);
}

TEST(damaged_or_missing_texts_are_told)
{
    static const char bad[] = "{\"format\": \"cltrain-data\", \"format_version\": 1}",
                      broken[] = "{\"model\": 3}";
    clt_checkpoint_file none[] = {{"config.json", net, sizeof net - 1}, {"data.json", bad, sizeof bad - 1}};
    clt_checkpoint_file wrong[] = {{"config.json", broken, sizeof broken - 1}};
    save_step(in_dir("bad"), 1, none, 2);
    expect_open(in_dir("bad"), CLT_ECHECKPOINT, "\"type\" is missing");
    save_step(in_dir("wrong"), 1, wrong, 1);
    expect_open(in_dir("wrong"), CLT_ECONFIG, "config.json");
    save_step(in_dir("old"), 1, NULL, 0); /* saved by an older program, and moved away from its run */
    expect_open(in_dir("old/step_1"), CLT_ECHECKPOINT, "config.resolved.json");
    put_file("old/step_1/config.resolved.json", net, sizeof net - 1);
    expect_open(in_dir("old/step_1"), CLT_OK, NULL);
    save_step(in_dir("edited"), 1, none, 1);
    put_file("edited/step_1/config.json", broken, sizeof broken - 1);
    expect_open(in_dir("edited"), CLT_ECHECKPOINT, "config.json");
    expect_open(in_dir("nowhere"), CLT_ECHECKPOINT, "no such folder");
    must(clt_mkdir_p(in_dir("empty")), "folder");
    expect_open(in_dir("empty"), CLT_ECHECKPOINT, "holds none");
}

typedef struct writing {
    char folder[512];
    clt_checkpoint_file *files;
    atomic_bool done;
} writing;

/* Saves like a training that keeps one checkpoint. */
static void *save_many(void *context)
{
    writing *w = context;
    for (int64_t step = 1; step <= 60; step++)
        save_step_keeping(w->folder, step, w->files, 2, 1);
    atomic_store(&w->done, true);
    return NULL;
}

TEST(a_run_can_be_opened_while_it_removes_checkpoints)
{
    clt_data_facts f = example();
    clt_str facts = printed(&f);
    clt_checkpoint_file files[] = {{"config.json", net, sizeof net - 1},
                                   {"data.json", facts.text, facts.length}};
    writing w = {.files = files};
    clt_thread *writer;
    int64_t last = 0;
    snprintf(w.folder, sizeof w.folder, "%s", in_dir("live"));
    save_step_keeping(w.folder, 0, files, 2, 1);
    must(clt_thread_start(&writer, "writer", save_many, &w), "thread");
    while (!atomic_load(&w.done)) {
        clt_saved_run_options tensors = {.tensors = last % 2 == 0};
        CLT_SCOPED(clt_saved_run) *saved = NULL;
        must(clt_saved_run_open(w.folder, &tensors, &saved), "a run that goes on");
        assert_true(saved->step >= last && saved->has_facts);
        last = saved->step;
    }
    clt_thread_join(writer);
    clt_str_free(&facts);
    expect_open(in_dir("live/step_59"), CLT_ECHECKPOINT, "no such folder");
}
