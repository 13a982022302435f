/* SPDX-License-Identifier: Apache-2.0
 *
 * Tuning choices in checkpoints that the tests make: choices of another device are named and kept for
 * later, choices of other kernels do not count as the same, and if the newest checkpoint is damaged, the
 * choices of the one before it hold.
 * ctest-labels: quick ctest-cost: 7 */
#include "tests/unit/train/checkpoint_save.h"
#include "tests/unit/train/train_test.h"

#include "cl/tune/tuning_store.h"
#include "engine/train/inspect/startup.h"
#include "engine/train/job/tuned.h"

#define STEPS 6
#define PROBLEM "NT m=16 n=48 k=80 batch=1 f32*f32->f32"

static clt_config *config;

FIXTURE(begin)
{
    unsetenv("CLTRAIN_GEMM");
    if (setenv("CLTRAIN_CACHE_DIR", in_dir("cache"), 1) != 0)
        return -1;
    config = train_config(
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [48], \"activation\": \"tanh\"}, \"data\": {\"type\": "
        "\"synthetic\", \"samples\": 64, \"shape\": [80], \"classes\": 3, \"micro_batch\": 16}, "
        "\"optimizer\": "
        "{\"learning_rate\": 0.02}, \"train\": {\"steps\": 6}, \"checkpoint\": {\"every\": 2, \"keep\": 0}}");
    return 0;
}

FIXTURE(end)
{
    clt_config_destroy(config);
    return 0;
}

/* Makes a record that chooses this variant for the first product the only one on disk; NULL: no record. */
static void put_record(const char *variant)
{
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    ocl_choice c = {.family = OCL_GEMM_FAMILY, .problem = PROBLEM, .tried = 2, .complete = true};
    CLT_SCOPED(ocl_device) *device = NULL;
    ocl_tuning *records;
    bool removed;
    must(ocl_device_open(&options, &device), "device");
    const ocl_device_desc *desc = ocl_device_describe(device);
    must(ocl_tuning_clear(desc, &removed), "clear");
    if (variant) {
        snprintf(c.variant, sizeof c.variant, "%s", variant);
        must(ocl_tuning_create(desc, &records), "records");
        must(ocl_tuning_set(records, &c), "records");
        must(ocl_tuning_save(desc, records), "records");
        ocl_tuning_destroy(records);
    }
}

/* The row "tuning" at the start of a run. */
static char tuning_row[200];
static void on_start(void *context, const clt_table_row *rows, int count)
{
    (void)context;
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].label, "tuning") == 0)
            snprintf(tuning_row, sizeof tuning_row, "%s", rows[i].value);
}

static void train(const char *out, const char *resume, record *r)
{
    clt_run_result result;
    char path[256];
    snprintf(path, sizeof path, "%s", in_dir(out));
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .out_dir = path,
                               .resume = resume,
                               .observer = {.context = r,
                                            .start = on_start,
                                            .step = record_step,
                                            .eval = record_eval,
                                            .message = record_message}};
    memset(r, 0, sizeof *r);
    tuning_row[0] = '\0';
    must(clt_train(&options, &result), out);
}

static const char *model_of(const char *run, int step)
{
    static char name[4][128];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(name[turn], sizeof name[0], "%s/checkpoints/step_%d/model.safetensors", run, step);
    return name[turn];
}

/* Copies step `step` of the run `from` to the run `to`, with `what` in its state replaced by `with`. */
static void copy_step(const char *from, const char *to, int step, const char *what, const char *with)
{
    char path[256], folder[256], state_name[160];
    clt_checkpoint *saved;
    clt_str state = {0}, resolved = {0};
    size_t size;
    snprintf(path, sizeof path, "%s/checkpoints/step_%d", in_dir(from), step);
    must(clt_checkpoint_open(path, &saved), path);
    snprintf(state_name, sizeof state_name, "%s/checkpoints/step_%d/state.json", from, step);
    CLT_FREED char *text = NULL;
    must(clt_file_read(in_dir(state_name), false, 0, CLT_ESTORAGE, &text, &size), state_name);
    if (!strstr(text, what))
        fail_msg("'%s' is not in %s", what, text);
    size_t before = (size_t)(strstr(text, what) - text);
    clt_str_append_n(&state, text, before);
    clt_str_append(&state, with);
    clt_str_append(&state, text + before + strlen(what));
    must(clt_config_print(config, false, &resolved), "config");
    clt_named_tensor model[16], optimizer[32];
    int n_model = clt_safetensors_count(saved->model), n_optimizer = clt_safetensors_count(saved->optimizer);
    assert_true(n_model <= 16 && n_optimizer <= 32);
    for (int i = 0; i < n_model; i++)
        model[i] = *clt_safetensors_at(saved->model, i);
    for (int i = 0; i < n_optimizer; i++)
        optimizer[i] = *clt_safetensors_at(saved->optimizer, i);
    clt_checkpoint_content content = {.step = step,
                                      .model = model,
                                      .n_model = n_model,
                                      .optimizer = optimizer,
                                      .n_optimizer = n_optimizer,
                                      .state_json = state.text,
                                      .config_json = resolved.text};
    snprintf(folder, sizeof folder, "%s/checkpoints", in_dir(to));
    must(clt_mkdir_p(folder), folder);
    must(save_checkpoint(folder, &content, 0), folder);
    snprintf(path, sizeof path, "%s/config.resolved.json", in_dir(to));
    must(clt_file_write(path, resolved.text, resolved.length), path);
    snprintf(path, sizeof path, "%s/metrics.jsonl", in_dir(to));
    must(clt_file_write(path, "", 0), path);
    clt_checkpoint_close(saved);
    clt_str_free(&state);
    clt_str_free(&resolved);
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

/* Uninterrupted runs: with the record ("simple" rounds this product differently on most devices), and
 * without. */
static void straight_runs(void)
{
    record r;
    put_record("simple");
    train("recorded", NULL, &r);
    assert_has(tuning_row, "1 of ");
    put_record(NULL);
    train("bare", NULL, &r);
    assert_has(tuning_row, "0 of ");
}

TEST(test_pins_of_another_device)
{
    record r;
    size_t size;
    straight_runs();
    copy_step("recorded", "moved", 2, "\"device\": \"", "\"device\": \"Other ");
    train("moved", "auto", &r);
    assert_has(r.messages, "tuning: the choices in");
    assert_has(r.messages, "were measured on device Other ");
    assert_has(r.messages, "this device makes its own");
    assert_has(tuning_row, "0 of ");
    assert_has(tuning_row, "(cached)");
    /* The other device's choices are kept, for the way back. */
    char *text = read_bytes("moved/checkpoints/step_6/state.json", &size);
    assert_has(text, "\"device\": \"Other ");
    assert_has(text, "\"variant\": \"simple\"");
    free(text);
    copy_step("moved", "back", 4, "\"device\": \"Other ", "\"device\": \"");
    /* Now two sets belong to this device: the first one was in use. */
    train("back", "auto", &r);
    assert_has(tuning_row, "0 of ");
    assert_has(tuning_row, "kept from the checkpoint");
    assert_true(files_equal(model_of("moved", STEPS), model_of("back", STEPS)));
}

TEST(test_pins_of_other_kernels)
{
    record r;
    straight_runs();
    copy_step("recorded", "updated", 2, "\"gemm\": \"", "\"gemm\": \"*");
    train("updated", "auto", &r); /* the hash is too long: not a valid set */
    assert_has(tuning_row, "(cached)");
    copy_step("recorded", "older", 2, "\"families\": {\n        \"gemm\": \"",
              "\"families\": {\n        \"gemm\": \"0000000000000000\",\n        \"x\": \"");
    train("older", "auto", &r);
    assert_has(r.messages, "were made for other kernels than this cltrain has");
    assert_has(tuning_row, "0 of ");
    assert_has(tuning_row, "(cached)");
}

/* The newest checkpoint, whose state is read early, has a damaged model: the one before it is taken, and
 * plans are made again with that one's choices. */
TEST(test_pins_of_a_damaged_checkpoint)
{
    record r;
    size_t size;
    char path[256];
    straight_runs();
    copy_step("recorded", "damaged", 2, "\"step\"", "\"step\"");
    copy_step("bare", "damaged", 4, "\"step\"", "\"step\"");
    char *model = read_bytes(model_of("damaged", 4), &size);
    model[size - 1] = (char)(model[size - 1] ^ 1);
    snprintf(path, sizeof path, "%s", in_dir(model_of("damaged", 4)));
    must(clt_file_write(path, model, size), path);
    free(model);
    train("damaged", "auto", &r);
    assert_has(r.messages, "at step 2");
    assert_has(tuning_row, "1 of ");
    assert_has(tuning_row, "kept from the checkpoint");
    assert_true(files_equal(model_of("recorded", STEPS), model_of("damaged", STEPS)));
}

TEST_PROGRAM(.fresh_folder = true, .device = true, .before = begin, .after = end);
