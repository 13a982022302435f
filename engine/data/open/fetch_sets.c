/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of published data sets: their URLs and the hashes of their files. To add a set, add an entry
 * here. */
#include <string.h>

#include "engine/data/open/fetch.h"

const clt_fetch_set clt_fetch_sets[] = {
    {.name = "mnist",
     .help = "handwritten digits: 60000 + 10000 images of 28 x 28, 10 classes",
     .train = "cltrain train configs/mlp-mnist.json",
     .files = {{.name = "train-images-idx3-ubyte.gz",
                .other = "train-images.idx3-ubyte",
                .sha256 = "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                .content = "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                .bytes = 9912422},
               {.name = "train-labels-idx1-ubyte.gz",
                .other = "train-labels.idx1-ubyte",
                .sha256 = "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                .content = "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                .bytes = 28881},
               {.name = "t10k-images-idx3-ubyte.gz",
                .other = "t10k-images.idx3-ubyte",
                .sha256 = "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                .content = "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                .bytes = 1648877},
               {.name = "t10k-labels-idx1-ubyte.gz",
                .other = "t10k-labels.idx1-ubyte",
                .sha256 = "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                .content = "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                .bytes = 4542}},
     .mirrors = {{.base = "https://storage.googleapis.com/cvdf-datasets/mnist/"},
                 {.base = "https://ossci-datasets.s3.amazonaws.com/mnist/"}}},
    {.name = "fashion-mnist",
     .help = "articles of clothing, in MNIST's sizes, 10 classes",
     .train = "cltrain train configs/mlp-mnist.json data.path=data/fashion-mnist/train-images-idx3-ubyte.gz "
              "data.targets=data/fashion-mnist/train-labels-idx1-ubyte.gz "
              "data.eval_path=data/fashion-mnist/t10k-images-idx3-ubyte.gz "
              "data.eval_targets=data/fashion-mnist/t10k-labels-idx1-ubyte.gz",
     .files = {{.name = "train-images-idx3-ubyte.gz",
                .sha256 = "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                .bytes = 26421880},
               {.name = "train-labels-idx1-ubyte.gz",
                .sha256 = "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                .bytes = 29515},
               {.name = "t10k-images-idx3-ubyte.gz",
                .sha256 = "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                .bytes = 4422102},
               {.name = "t10k-labels-idx1-ubyte.gz",
                .sha256 = "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                .bytes = 5148}},
     .mirrors = {{.base =
                      "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"},
                 {.base = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"}}},
    {.name = "cifar10",
     .help = "colour photographs: 50000 + 10000 images of 3 x 32 x 32, 10 classes",
     .kind = CLT_FETCH_CIFAR10,
     .train = "cltrain train configs/mlp-mnist.json data.path=data/cifar10/train-images-idx4-ubyte "
              "data.targets=data/cifar10/train-labels-idx1-ubyte "
              "data.eval_path=data/cifar10/test-images-idx4-ubyte "
              "data.eval_targets=data/cifar10/test-labels-idx1-ubyte data.mean=0.4734 data.std=0.2516",
     .files = {{.name = "cifar-10-binary.tar.gz",
                .sha256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                .bytes = 170052171}},
     .mirrors = {{.base = "https://www.cs.toronto.edu/~kriz/"}}},
    {.name = "tinyshakespeare",
     .help = "1.1 MB of Shakespeare's plays as one text",
     .train = "cltrain train configs/gpt-shakespeare-cpu.json",
     .files = {{.name = "input.txt",
                .other = "tinyshakespeare.txt",
                .sha256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                .bytes = 1115394}},
     .mirrors = {{.base = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"},
                 {.base = "https://raw.githubusercontent.com/karpathy/ng-video-lecture/master/"}}},
    {.name = "gpt2",
     .help = "GPT-2's vocabulary, for data.tokenizer: 50257 tokens",
     .files = {{.name = "vocab.json",
                .other = "encoder.json",
                .sha256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
                .bytes = 1042301},
               {.name = "merges.txt",
                .other = "vocab.bpe",
                .sha256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
                .bytes = 456318}},
     .mirrors = {{.base = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/", .other = true},
                 {.base = "https://huggingface.co/openai-community/gpt2/resolve/main/"}}},
    {.name = "tinyshakespeare-gpt2",
     .help = "the same text as shards of GPT-2's tokens (loads tinyshakespeare and gpt2)",
     .kind = CLT_FETCH_SHARDS,
     .train = "cltrain train configs/gpt2-124m.json data.path=data/tinyshakespeare-gpt2 data.global_batch=32 "
              "train.steps=500",
     .needs = {"tinyshakespeare", "gpt2"}},
    {.name = "enwik8",
     .help = "the first 100 MB of English Wikipedia of 2006, with its markup (CC BY-SA)",
     .kind = CLT_FETCH_ZIP,
     .train = "cltrain train configs/gpt-shakespeare-cpu.json data.path=data/enwik8/enwik8.txt",
     .files = {{.name = "enwik8.zip",
                .sha256 = "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
                .bytes = 36445475}},
     .unpacked = "enwik8.txt",
     .unpacked_sha256 = "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8",
     .mirrors = {{.base = "https://mattmahoney.net/dc/"}, {.base = "https://data.deepai.org/"}}},
    {.name = "enwik8-gpt2",
     .help = "the same text as shards of GPT-2's tokens (loads enwik8 and gpt2)",
     .kind = CLT_FETCH_SHARDS,
     .train = "cltrain train configs/gpt2-124m.json data.path=data/enwik8-gpt2",
     .needs = {"enwik8", "gpt2"}},
    {.name = "volumes-sample",
     .help = "volumes like CT, made here: 12 with masks, 128 of two classes",
     .kind = CLT_FETCH_VOLUMES,
     .train = "cltrain train configs/unet3d-tiny.json; classes: configs/cnn3d-tiny.json"},
    {.name = NULL},
};

const clt_fetch_set *clt_fetch_find(const clt_fetch_set *sets, const char *name)
{
    for (; sets->name; sets++)
        if (strcmp(sets->name, name) == 0)
            return sets;
    return NULL;
}

uint64_t clt_fetch_bytes(const clt_fetch_set *sets, const clt_fetch_set *set)
{
    uint64_t bytes = 0;
    for (int i = 0; i < CLT_FETCH_FILES && set->files[i].name; i++)
        bytes += set->files[i].bytes;
    for (int i = 0; i < 2 && set->needs[i]; i++) {
        const clt_fetch_set *need = clt_fetch_find(sets, set->needs[i]);
        bytes += need ? clt_fetch_bytes(sets, need) : 0;
    }
    return bytes;
}

const clt_fetch_set *clt_fetch_of_path(const char *path)
{
    for (const char *at = path; (at = strstr(at, "data/")) != NULL; at += 5) {
        if (at != path && at[-1] != '/')
            continue;
        for (const clt_fetch_set *set = clt_fetch_sets; set->name; set++) {
            size_t n = strlen(set->name);
            if (strncmp(at + 5, set->name, n) == 0 && (at[5 + n] == '/' || at[5 + n] == '\0'))
                return set;
        }
    }
    return NULL;
}
