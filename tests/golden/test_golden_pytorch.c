/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick ctest-programs: kept
 *
 * Files that PyTorch wrote (make_golden_pytorch.py): every tensor is equal to the bit to the same one in a
 * safetensors file, in the zip form, the older form and with another protocol of pickle; entries are chosen
 * by name. */
#include "tests/unit/test.h"

#include "tests/golden/weight_difference.h"

#define DATA CLT_TEST_SOURCE_DIR "/tests/golden/data/"

static clt_safetensors *open_file(const char *path)
{
    clt_safetensors *file = NULL;
    assert_ok(clt_weights_open(path, &file));
    return file;
}

static void assert_equal_files(const char *path, const char *other_path)
{
    CLT_SCOPED(clt_safetensors) *file = open_file(path);
    CLT_SCOPED(clt_safetensors) *other = open_file(other_path);
    char difference[600];
    weight_difference(file, other, difference, sizeof difference);
    assert_string_equal(difference, "");
    assert_ok(clt_safetensors_whole(file));
    assert_true(clt_safetensors_hash(file) != 0);
}

static void assert_refused(const char *path, const char *part)
{
    clt_safetensors *file = NULL;
    assert_int_equal(clt_weights_open(path, &file), CLT_ECHECKPOINT);
    assert_null(file);
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

TEST(views_and_types_are_equal_to_safetensors)
{
    assert_equal_files(DATA "pytorch/views.pth", DATA "pytorch/views.safetensors");
    assert_equal_files(DATA "pytorch/views_old.pth", DATA "pytorch/views.safetensors");
    assert_equal_files(DATA "pytorch/views_4.pth", DATA "pytorch/views.safetensors");
}

TEST(models_are_equal_to_safetensors)
{
    assert_equal_files(DATA "pytorch/hf_tied.bin", DATA "hf_tied");
    assert_equal_files(DATA "pytorch/pytorch_model.bin.index.json", DATA "hf_shards");
}

TEST(a_checkpoint_has_its_state_dict_found)
{
    CLT_SCOPED(clt_safetensors) *file = open_file(DATA "pytorch/checkpoint.pth");
    CLT_SCOPED(clt_safetensors) *same = open_file(DATA "pytorch/checkpoint.pth:model");
    assert_int_equal(clt_safetensors_count(file), 2);
    assert_int_equal(clt_safetensors_count(same), 2);
    assert_ok(clt_safetensors_strip_prefix(file, "module."));
    assert_non_null(clt_safetensors_find(file, "weight"));
    CLT_SCOPED(clt_safetensors) *states = open_file(DATA "pytorch/checkpoint.pth:.");
    assert_int_equal(clt_safetensors_count(states), 1); /* epoch, which is a tensor of one number */
}

TEST(several_entries_are_listed)
{
    assert_refused(DATA "pytorch/two.pth",
                   "has 2 entries with tensors, 'a', 'b'; name the one that is meant");
    assert_refused(DATA "pytorch/two.pth:c", "has no entry 'c' with tensors; it has 'a', 'b'");
    assert_refused(DATA "pytorch/two.pth:a:b", "has no entry 'a:b'");
    CLT_SCOPED(clt_safetensors) *file = open_file(DATA "pytorch/two.pth:b");
    assert_int_equal(clt_safetensors_count(file), 2);
    assert_refused(DATA "pytorch/views.safetensors:a", "is not a file of PyTorch");
    assert_refused(DATA "pytorch/absent.pth:a", "No such file");
}

TEST(whole_modules_are_equal_to_their_state_dicts)
{
    CLT_SCOPED(clt_safetensors) *file = open_file(DATA "pytorch/module.pth");
    assert_int_equal(clt_safetensors_count(file), 2);
    assert_non_null(clt_safetensors_find(file, "bias"));
    assert_equal_files(DATA "pytorch/module_resnet.pth", DATA "pytorch/module_resnet.safetensors");
    assert_equal_files(DATA "pytorch/module_old.pth", DATA "pytorch/module_resnet.safetensors");
    assert_equal_files(DATA "pytorch/module_gpt.pth", DATA "pytorch/module_gpt.safetensors");
    assert_equal_files(DATA "pytorch/module_entries.pth:model", DATA "pytorch/module_gpt.safetensors");
    assert_equal_files(DATA "pytorch/module_entries.pth:teacher", DATA "pytorch/module_resnet.safetensors");
    assert_refused(DATA "pytorch/module_entries.pth", "has 2 entries with tensors, 'model', 'teacher'");
}
