/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * Configs with keys and values of other tools: the message names cltrain's own. Needs no device. */
#include "tests/unit/models/config_texts.h"

#include "engine/config/config_foreign.h"

/* A line that a user of another tool writes, and the line that the message suggests instead. */
TEST(test_other_tools)
{
    static const char *const overrides[][2] = {
        {"learning_rate=0.1", "write: optimizer.learning_rate=0.1"},
        {"optimizer.lr=0.1", "did you mean 'optimizer.learning_rate'? write: optimizer.learning_rate=0.1"},
        {"lr=3e-4", "write: optimizer.learning_rate=3e-4"},
        {"data.batch_size=16", "write: data.micro_batch=16"},
        {"train_batch_size=16", "write: data.global_batch=16"},
        {"micro_batch_size=4", "write: data.micro_batch=4"},
        {"train.gradient_accumulation_steps=4", "did you mean 'data.global_batch'?"},
        {"epochs=3", "write: train.epochs=3"},
        {"num_epochs=3", "write: train.epochs=3"},
        {"num_train_epochs=3", "write: train.epochs=3"},
        {"trainer.max_steps=30", "write: train.steps=30"},
        {"model.n_layer=4", "write: model.layers=4"},
        {"num_layers=4", "write: model.layers=4"},
        {"num_hidden_layers=4", "write: model.layers=4"},
        {"n_head=4", "write: model.heads=4"},
        {"num_attention_heads=4", "write: model.heads=4"},
        {"d_model=64", "write: model.channels=64"},
        {"model.n_embd=64", "write: model.channels=64"},
        {"hidden_size=64", "write: model.channels=64"},
        {"block_size=64", "write: model.context=64"},
        {"seq_len=64", "write: model.context=64"},
        {"max-seq-len=64", "write: model.context=64"},
        {"n_positions=64", "write: model.context=64"},
        {"vocab_size=64", "write: model.vocab=64"},
        {"dropout=0.1", "write: model.dropout=0.1"},
        {"train.dropout=0.1", "write: model.dropout=0.1"},
        {"weight_decay=0.1", "write: optimizer.weight_decay=0.1"},
        {"warmup_steps=10", "write: schedule.warmup=10"},
        {"max_grad_norm=1", "write: optimizer.clip=1"},
        {"grad_clip=1", "write: optimizer.clip=1"},
        {"seed=1", "write: train.seed=1"},
        {"fp16=true", "write: precision.mode=f16"},
        {"bf16=True", "write: precision.mode=bf16"},
        {"amp=true", "write: precision.mode=auto"},
        {"device=cuda", "write: device.spec=gpu"},
        {"output_dir=x", "--out DIR"},
        {"save_steps=100", "write: checkpoint.every=100"},
        {"eval_steps=100", "write: train.eval_every=100"},
        {"logging_steps=100", "write: train.log_every=100"},
        {"num_workers=2", "write: data.workers=2"},
        {"LR=0.1", "write: optimizer.learning_rate=0.1"},
        {"type=gpt", "a key needs its section; there are model.type, data.type"},
        {"optimizer.optim=adamw_torch", "write: optimizer.type=adamw"},
        {"optim=FusedAdam", "write: optimizer.type=adamw"},
        {"optim=lion_32bit", "write: optimizer.type=lion"},
        {"opt=larc", "write: optimizer.type=lars"},
        {"optimizer_type=FusedLAMB", "write: optimizer.type=lamb"},
        {"optim=torch.optim.Muon", "write: optimizer.type=muon"},
        {"ema_decay=0.999", "write: optimizer.ema=0.999"},
    };
    for (size_t i = 0; i < sizeof overrides / sizeof overrides[0]; i++)
        refused(good, overrides[i][0], overrides[i][1], NULL);
    /* the message does not repeat a value that our key would refuse, or one that a shell would change */
    refused(good, "lr=-1", "did you mean 'optimizer.learning_rate'?", NULL);
    assert_null(strstr(clt_error_text(), "write:"));
    refused(good, "data_dir=$(rm -rf x)", "did you mean 'data.path'?", NULL);
    assert_null(strstr(clt_error_text(), "write:"));
    refused("{\n\"learning_rate\": 0.1,\n\"device\": \"cuda\",\n\"training\": {\"epochs\": 3, "
            "\"num_train_epochs\": 4},\n"
            "\"model\": {\"type\": \"gpt\", \"n_layer\": 2, \"d_model\": \"wide\"}}",
            NULL, "t.json:2:", "write: \"optimizer\": {\"learning_rate\": 0.1}",
            "t.json:3:", "write: \"device\": {\"spec\": \"gpu\"}",
            "t.json:4:", "write: \"train\": {\"epochs\": 4}", "write: \"model\": {\"layers\": 2}",
            "did you mean 'model.channels'? (", NULL);
}

/* Every entry of the table names a key that exists, and none of our keys is treated as another tool's. */
TEST(test_other_tools_table)
{
    for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
        const clt_foreign_key *other = clt_foreign_find(strchr(key->path, '.') + 1);
        assert_true(!other || !other->path || strcmp(other->path, key->path) == 0 ||
                    strcmp(other->name, "epochs") == 0);
    }
    char line[64], hint[256];
    clt_given_value longest = {line, false};
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_false(clt_foreign_line("train.steps", NULL, longest, hint, sizeof hint));
    assert_null(clt_foreign_find(""));
    assert_null(
        clt_foreign_find("a_name_that_is_longer_than_anything_in_the_table_and_then_some_more_of_it"));
    assert_true(clt_config_hint("batch-size", "8", hint, sizeof hint));
    assert_non_null(strstr(hint, "write: data.micro_batch=8"));
    assert_false(clt_config_hint("frobnicate", "8", hint, sizeof hint));
}

/* Every word of the table leads to a value that the key takes. */
TEST(test_other_tools_values)
{
    for (const clt_foreign_value *v = clt_foreign_values(); v->path; v++) {
        int index = clt_config_key_index(v->path);
        assert_true(index >= 0);
        assert_true(clt_config_has_word(clt_config_schema()[index].choices, v->ours));
        for (const char *word = v->words; *word; word += strcspn(word, "|"), word += *word == '|') {
            char override[160], wanted[160];
            snprintf(override, sizeof override, "%s=%.*s", v->path, (int)strcspn(word, "|"), word);
            snprintf(wanted, sizeof wanted, "did you mean '%s'?", v->ours);
            refused("{}", override, v->path, wanted, v->note ? v->note : v->path, NULL);
        }
    }
    refused("{}", "optimizer.type=adamW", "did you mean 'adamw'?", NULL);
    refused("{}", "optimizer.type=AdamW_Torch", "did you mean 'adamw'?", NULL);
    refused("{}", "model.type=Transformer", "did you mean 'gpt'?", NULL);
    refused("{}", "precision.mode=fp16", "did you mean 'f16'?", NULL);
    refused("{}", "schedule.type=CosineAnnealingLR", "did you mean 'cosine'?", NULL);
}
