/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * Files that pretend to be torch.save's: pickles that would run something, damaged ones, tensors that leave
 * their storages, archives that lie. Each is refused with a message of its own, or the value is left out. */
#include "tests/unit/test.h"

#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/weight_file.h"
#include "engine/files/fileio.h"

typedef struct bytes {
    const char *at;
    size_t size;
} bytes;
#define B(text) ((bytes){text, sizeof(text) - 1})

static void add(clt_str *s, bytes b)
{
    clt_str_append_n(s, b.at, b.size);
}

/* A file of the older form: magic number, version, facts of the machine, `object`, the keys of the storages,
 * and one storage "0" of four floats. */
static const char *old_file(bytes object, bytes keys)
{
    static const float values[4] = {1, 2, 3, 4};
    CLT_SCOPED(clt_str) s = {0};
    add(&s, B("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}."));
    add(&s, object);
    add(&s, keys);
    add(&s, B("\4\0\0\0\0\0\0\0"));
    clt_str_append_n(&s, (const char *)values, sizeof values);
    return put_file("x.pth", s.text, s.length);
}

#define KEYS                                                                                                 \
    B("\x80\x02]X\1\0\0\0"                                                                                   \
      "0a.")
#define NO_KEYS B("\x80\x02].")
#define TEXT_STORAGE "X\7\0\0\0storage"
#define STORAGE_OF(class, key, numel) "(" TEXT_STORAGE "c" class "\nX\1\0\0\0" key "X\3\0\0\0cpu" numel "NtQ"
#define STORAGE STORAGE_OF("torch\nFloatStorage", "0", "K\4")
#define V2 "ctorch._utils\n_rebuild_tensor_v2\n"
#define TENSOR_IN(storage, offset, size, stride) V2 "(" storage offset size stride "\x89}tR"
#define TENSOR(offset, size, stride) TENSOR_IN(STORAGE, offset, size, stride)
#define GOOD TENSOR("K\0", "K\4\x85", "K\1\x85")
#define DICT(value) "\x80\x02}X\1\0\0\0w" value "s."
#define SYSTEM "cposix\nsystem\nX\x0c\0\0\0touch pwned!\x85R"
#define LONG(b7) "\x8a\x08\0\0\0\0\0\0\0" b7

static clt_status open_bytes(const char *path, clt_safetensors **file)
{
    *file = NULL;
    clt_status status = clt_pytorch_open(path, NULL, file);
    assert_true(status == CLT_OK || (status == CLT_ECHECKPOINT && clt_error_text()[0] && !*file));
    return status;
}

static void assert_refused(const char *path, const char *part)
{
    clt_safetensors *file;
    assert_int_equal(open_bytes(path, &file), CLT_ECHECKPOINT);
    if (!strstr(clt_error_text(), part))
        fail_msg("\"%s\" is not in the message \"%s\"", part, clt_error_text());
}

/* Opens a file that is good, and returns how many tensors it has. */
static int count_in(const char *path)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    assert_ok(open_bytes(path, &file));
    return clt_safetensors_count(file);
}

TEST(a_good_pickle_is_read)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    float values[4];
    assert_ok(open_bytes(old_file(B(DICT(GOOD)), KEYS), &file));
    assert_int_equal(clt_safetensors_count(file), 1);
    assert_ok(clt_named_tensor_to_f32(clt_safetensors_find(file, "w"), values));
    assert_true(values[0] < 1.5F && values[3] > 3.5F);
}

TEST(what_would_be_run_is_named_and_left_out)
{
    static const struct {
        bytes object;
        const char *part;
    } roots[] = {
        {B("\x80\x02" SYSTEM "."), "an object of posix.system"},
        {B("\x80\x02"
           "cposix\nsystem\nX\2\0\0\0ls\x85\x81}X\1\0\0\0aK\1sb."),
         "an object of posix.system"},
        {B("\x80\x04X\5\0\0\0posixX\6\0\0\0system\x93X\2\0\0\0ls\x85R."), "an object of posix.system"},
        {B("\x80\x04X\5\0\0\0posixX\6\0\0\0system\x93X\2\0\0\0ls\x85}\x92."), "an object of posix.system"},
        {B("\x80\x02" SYSTEM ")R."), "an object of the result of another call"},
        {B("\x80\x02"
           "cposix\nsystem\n."),
         "holds no dict with tensors"},
        {B("\x80\x02K\1."), "holds no dict with tensors"},
        {B("\x80\x02"
           "c\x1b[31mposix\nsystem\n)R."),
         "?[31mposix.system"},
    };
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++)
        assert_refused(old_file(roots[i].object, NO_KEYS), roots[i].part);
    /* a weight next to such a value is read */
    assert_int_equal(count_in(old_file(B("\x80\x02}X\1\0\0\0w" GOOD "sX\1\0\0\0x" SYSTEM "s."), KEYS)), 1);
    assert_int_equal(count_in(old_file(B("\x80\x02}X\1\0\0\0w" GOOD "s" SYSTEM "X\1\0\0\0y"
                                         "00."),
                                       KEYS)),
                     1);
    assert_false(clt_file_exists("pwned!"));
}

TEST(opcodes_and_stacks)
{
    static const struct {
        bytes object;
        const char *part;
    } bad[] = {
        {B("\x80\x02(X\2\0\0\0lsiposix\nsystem\n."), "opcode 0x69"},
        {B("\x80\x02(cposix\nsystem\nX\2\0\0\0lso."), "opcode 0x6f"},
        {B("\x80\x02\x82\1."), "opcode 0x82"},
        {B("\x80\x02P0\n."), "opcode 0x50"},
        {B("\x80\x02I1\n."), "opcode 0x49"},
        {B("\x80\x02S'x'\n."), "opcode 0x53"},
        {B("\x80\x02Vx\n."), "opcode 0x56"},
        {B("\x80\x02g0\n."), "opcode 0x67"},
        {B("\x80\x02\x97."), "opcode 0x97"},
        {B("\x80\x02R."), "takes a value that is not there"},
        {B("\x80\x02K\1R."), "takes a value that is not there"},
        {B("\x80\x02."), "takes a value that is not there"},
        {B("\x80\x02K\1(R."), "takes a value that is not there"},
        {B("\x80\x02Q."), "takes a value that is not there"},
        {B("\x80\x02\x87."), "takes a value that is not there"},
        {B("\x80\x02t."), "ends a collection that it has not begun"},
        {B("\x80\x02K\1(K\1e."), "a value that cannot have them"},
        {B("\x80\x02}(K\1u."), "a value that cannot have them"},
        {B("\x80\x02](K\1K\1u."), "a value that cannot have them"},
        {B("\x80\x02(K\1e."), "a collection that is not there"},
        {B("\x80\x02h\0."), "number 0 of its memo"},
        {B("\x80\x02K\1q\1j\xff\xff\xff\xff."), "number 4294967295 of its memo"},
        {B("\x80\x02q\0."), "uses a value that is not there"},
        {B("\x80\x02K\1K\1\x93."), "something that is not text"},
        {B("\x80\x02"
           "ccollections\nOrderedDict\n]K\1a\x85R."),
         "is not a pair"},
        {B("\x80\x02X\xff\xff\xff\xff"), "ends in the middle of a value"},
        {B("\x80\x02\x8d\0\0\0\0\0\0\0\x80"), "ends in the middle of a value"},
        {B("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "ends in the middle of a value"},
        {B("\x80\x02\x8b\xff\xff\xff\xff"), "ends in the middle of a value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(old_file(bad[i].object, KEYS), bad[i].part);
    /* the highest memo index takes one entry of a small table */
    assert_int_equal(count_in(old_file(B("\x80\x02}r\xff\xff\xff\xff"
                                         "0j\xff\xff\xff\xffX\1\0\0\0w" GOOD "s."),
                                       KEYS)),
                     1);
    /* a list and a dict that contain themselves */
    assert_refused(old_file(B("\x80\x02]q\1h\1a."), NO_KEYS), "no dict with tensors");
    assert_refused(old_file(B("\x80\x02}q\1X\1\0\0\0ah\1s."), NO_KEYS), "no dict with tensors");
    assert_refused(old_file(B("\x80\x02"
                              "ctorch._utils\n_rebuild_parameter\n]q\1\x85R."),
                            NO_KEYS),
                   "torch._utils._rebuild_parameter");
}

#define KEY(length, text) "X" length "\0\0\0" text
#define MODULE_CLASS "ca\nB\n"
/* An object of some class with the attributes of a module, and with more of them. */
#define OBJECT(class, parameters, buffers, modules, more)                                                    \
    class ")\x81}(" KEY("\x0b", "_parameters") parameters KEY("\x08", "_buffers")                            \
        buffers KEY("\x08", "_modules") modules more "ub"
#define MODULE(parameters, buffers, modules) OBJECT(MODULE_CLASS, parameters, buffers, modules, "")
#define ONE(name, value) "}" KEY("\1", name) value "s"
#define LEFT_OUT(set) KEY("\x1b", "_non_persistent_buffers_set") set

TEST(modules_are_state_dicts)
{
    static const struct {
        bytes object;
        int count;
        const char *name;
    } good[] = {
        {B("\x80\x02" MODULE(ONE("w", GOOD), "}", "}") "."), 1, "w"},
        {B("\x80\x02" MODULE("}", ONE("w", GOOD), ONE("n", "N")) "."), 1, "w"},
        {B("\x80\x02" MODULE(ONE("b", "N"), ONE("c", "N"), ONE("m", MODULE(ONE("w", GOOD), "}", "}"))) "."),
         1, "m.w"},
        /* the older form stores the class elsewhere, with its source text */
        {B("\x80\x02" OBJECT("(X\6\0\0\0moduleca\nB\nNNtQ", ONE("w", GOOD), "}", "}", "") "."), 1, "w"},
        /* a module in a dict, and in a dict of a dict */
        {B("\x80\x02" ONE("x", MODULE(ONE("w", GOOD), "}", "}")) "."), 1, "w"},
        {B("\x80\x02" ONE("x", ONE("y", MODULE(ONE("w", GOOD), "}", "}"))) "."), 1, "w"},
        /* buffers that the module does not save, as sets of both kinds */
        {B("\x80\x02" OBJECT(MODULE_CLASS, ONE("w", GOOD), ONE("b", GOOD), "}",
                             LEFT_OUT("c__builtin__\nset\n]" KEY("\1", "b") "a\x85R")) "."),
         1, "w"},
        {B("\x80\x04" OBJECT(MODULE_CLASS, ONE("w", GOOD), ONE("b", GOOD), "}",
                             LEFT_OUT("\x8f(" KEY("\1", "b") "\x90")) "."),
         1, "w"},
        {B("\x80\x02" OBJECT(MODULE_CLASS, ONE("w", GOOD), ONE("b", GOOD), "}",
                             LEFT_OUT("cbuiltins\nset\n)R")) "."),
         2, "b"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CLT_SCOPED(clt_safetensors) *file = NULL;
        assert_ok(open_bytes(old_file(good[i].object, KEYS), &file));
        assert_int_equal(clt_safetensors_count(file), good[i].count);
        assert_non_null(clt_safetensors_find(file, good[i].name));
    }
}

TEST(modules_that_are_refused)
{
    static const struct {
        bytes object;
        const char *part;
    } bad[] = {
        {B("\x80\x02" MODULE("]", "}", "}") "."), "_parameters of the outermost module is not a dict"},
        {B("\x80\x02" MODULE("}", "N", "}") "."), "_buffers of the outermost module is not a dict"},
        {B("\x80\x02" MODULE("}", "}", ONE("m", MODULE("}", "}", "]"))) "."),
         "_modules of module \"m\" is not a dict"},
        {B("\x80\x02" MODULE(ONE("w", "K\1"), "}", "}") "."),
         "\"w\" in _parameters of a module is not a dense tensor"},
        {B("\x80\x02" MODULE("}", "}", ONE("m", MODULE("}", ONE("b", SYSTEM), "}"))) "."),
         "\"m.b\" in _buffers of a module is not a dense tensor"},
        {B("\x80\x02" MODULE("}", "}", ONE("m", SYSTEM)) "."),
         "module \"m\" is not an object that is known as a module"},
        {B("\x80\x02" MODULE("}K\1K\1s", "}", "}") "."), "a member whose name is not plain text"},
        {B("\x80\x02" MODULE("}", "}", ONE("\x1b", "}")) "."), "a member whose name is not plain text"},
        {B("\x80\x02" OBJECT(MODULE_CLASS, "}", "}", "}", LEFT_OUT("K\1")) "."),
         "_non_persistent_buffers_set of the outermost module is not a set"},
        {B("\x80\x02" OBJECT(MODULE_CLASS, "}", "}", "}", LEFT_OUT("cbuiltins\nset\nK\1\x85R")) "."),
         "_non_persistent_buffers_set of the outermost module is not a set"},
        {B("\x80\x02" MODULE("}", "}", "}") "}b."), "gives an object its attributes twice"},
        {B("\x80\x02" MODULE("}", "}", "}") "."), "holds no dict with tensors"},
        {B("\x80\x02}b."), "uses a value that is not there"},
        /* a module in itself, and two modules in each other, in an entry of a dict */
        {B("\x80\x02" MODULE("}", "}", "}q\1") "q\2h\1" KEY("\1", "m") "h\2s0."),
         "the outermost module contains itself as module \"m\""},
        {B("\x80\x02" ONE("x", MODULE("}", "}", ONE("a", MODULE("}", "}", "}q\1") "q\2"))) "h\1" KEY(
             "\1", "b") MODULE("}", "}", ONE("c", "h\2")) "s0."),
         "module \"a\" contains itself as module \"a.b.c\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(old_file(bad[i].object, NO_KEYS), bad[i].part);
}

/* Writes modules, each of which holds the previous one under `names` names; the first one is innermost. */
static const char *nested_modules(int count, const char *names, const char *name_end)
{
    CLT_SCOPED(clt_str) s = {0};
    add(&s, B("\x80\x02" MODULE(ONE("w", GOOD), "}", "}") "q\1"));
    for (int i = 0; i < count; i++) {
        add(&s, B("0" MODULE_CLASS ")\x81}(" KEY("\x0b", "_parameters") "}" KEY("\x08", "_buffers") "}" KEY(
                    "\x08", "_modules") "}"));
        for (const char *name = names; *name; name++) {
            size_t length = 1 + strlen(name_end);
            add(&s, B("X"));
            clt_str_append_n(&s, (const char[]){(char)(length & 255), (char)(length >> 8), 0, 0}, 4);
            clt_str_append_n(&s, name, 1);
            clt_str_append(&s, name_end);
            add(&s, B("h\1s"));
        }
        add(&s, B("ubq\1"));
    }
    add(&s, B("."));
    return old_file((bytes){s.text, s.length}, KEYS);
}

TEST(depth_and_number_of_modules_are_limited)
{
    char long_end[300];
    memset(long_end, 'x', sizeof long_end - 1);
    long_end[sizeof long_end - 1] = 0;
    assert_int_equal(count_in(nested_modules(100, "m", "")), 1);
    assert_refused(nested_modules(101, "m", ""), "lies more than 100 modules deep");
    assert_int_equal(count_in(nested_modules(10, "mn", "")), 1024);
    assert_refused(nested_modules(60, "mn", ""), "which is not a model");
    assert_int_equal(count_in(nested_modules(1, "m", long_end)), 1);
    assert_refused(nested_modules(2, "m", long_end), "500 are read");
}

TEST(depth_and_number_of_values_are_limited)
{
    CLT_SCOPED(clt_str) deep = {0};
    CLT_SCOPED(clt_str) many = {0};
    for (int i = 0; i < 1001; i++)
        add(&deep, B("("));
    assert_refused(old_file((bytes){deep.text, deep.length}, KEYS), "more than 1000 deep");
    add(&many, B("\x80\x02]("));
    for (int i = 0; i < 4300000; i++)
        add(&many, B("N"));
    add(&many, B("e."));
    assert_refused(old_file((bytes){many.text, many.length}, KEYS), "more than 4194304 values");
}

/* One list of 3000 pairs as the argument of 3000 calls: nine million members of dicts in 30 KB. */
TEST(members_of_shared_lists_are_counted)
{
    CLT_SCOPED(clt_str) text = {0};
    add(&text, B("\x80\x02](]q\0(X\1\0\0\0aN\x86q\1"));
    for (int i = 1; i < 3000; i++)
        add(&text, B("h\1"));
    add(&text, B("eccollections\nOrderedDict\nq\2"));
    for (int i = 0; i < 3000; i++)
        add(&text, B("h\2h\0\x85R"));
    add(&text, B("e."));
    assert_refused(old_file((bytes){text.text, text.length}, KEYS), "more than 4194304 values");
}

TEST(tensors_that_do_not_fit_their_storage)
{
    static const struct {
        bytes object;
        const char *part;
    } bad[] = {
        {B(DICT(TENSOR("K\1", "K\4\x85", "K\1\x85"))), "uses element 4 of storage '0', which has 4"},
        {B(DICT(TENSOR("K\0", "K\5\x85", "K\1\x85"))), "uses element 4 of storage '0'"},
        {B(DICT(TENSOR("K\0", "K\2K\2\x86", "K\3K\1\x86"))), "uses element 4 of storage '0'"},
        {B(DICT(TENSOR("K\0", "K\4\x85", "J\xff\xff\xff\xff\x85"))),
         "the stride -1; neither may be negative"},
        {B(DICT(TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85"))), "has the size -1"},
        {B(DICT(TENSOR("J\xff\xff\xff\xff", "K\4\x85", "K\1\x85"))), "no offset, sizes and strides"},
        {B(DICT(TENSOR("N", "K\4\x85", "K\1\x85"))), "no offset, sizes and strides"},
        {B(DICT(TENSOR("K\0", "K\4\x85", "K\1K\1\x86"))), "no offset, sizes and strides"},
        {B(DICT(TENSOR("K\0", "N\x85", "K\1\x85"))), "no whole number"},
        {B(DICT(TENSOR(LONG("\x7f"), "K\4\x85", "K\1\x85"))), "uses element"},
        {B(DICT(TENSOR("K\0", "K\4\x85", LONG("\x40") "\x85"))), "overflow 63 bits"},
        {B(DICT(TENSOR("K\0", LONG("\x40") LONG("\x40") "\x86", "K\0K\0\x86"))), "overflows 63 bits"},
        {B(DICT(TENSOR("K\0", "J\0\0\0\x40\x85", "K\0\x85"))), "more memory than the file has bytes"},
        {B(DICT(TENSOR_IN(STORAGE_OF("posix\nsystem", "0", "K\4"), "K\0", "K\4\x85", "K\1\x85"))),
         "the class 'posix system' are not read"},
        {B(DICT(TENSOR_IN(STORAGE_OF("torch\nFloatStorage", "0", "K\5"), "K\0", "K\4\x85", "K\1\x85"))),
         "has 16 bytes, its pickle says 20"},
        {B(DICT(
             TENSOR_IN(STORAGE_OF("torch\nFloatStorage", "0", LONG("\x70")), "K\0", "K\4\x85", "K\1\x85"))),
         "cannot have"},
        {B(DICT(TENSOR_IN(STORAGE_OF("torch\nFloatStorage", "0", "J\xff\xff\xff\xff"), "K\0", "K\4\x85",
                          "K\1\x85"))),
         "cannot have -1 elements"},
        {B(DICT(V2 "(" STORAGE "K\0K\4\x85K\1\x85\x89}}X\4\0\0\0conj\x88stR")),
         "the conjugate or the negative"},
        {B("\x80\x02}X\1\0\0\0\x1b" GOOD "s."), "not plain text"},
        {B("\x80\x02}X\1\0\0\0w" GOOD "sX\1\0\0\0w" GOOD "s."), "\"w\" appears twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(old_file(bad[i].object, KEYS), bad[i].part);
    assert_refused(old_file(B(DICT(TENSOR_IN("K\1", "K\0", "K\4\x85", "K\1\x85"))), NO_KEYS),
                   "has no storage");
    assert_refused(old_file(B(DICT(TENSOR_IN("K\1Q", "K\0", "K\4\x85", "K\1\x85"))), NO_KEYS),
                   "in a form that PyTorch does not write");
    assert_refused(old_file(B(DICT(GOOD)), NO_KEYS), "the file has no storage '0'");
    assert_refused(old_file(B(DICT(GOOD)), B("\x80\x02K\1.")), "list of storages is missing");
    assert_refused(old_file(B(DICT(GOOD)), B("\x80\x02]K\1a.")), "is not a name");
    assert_refused(old_file(B(DICT(GOOD)), B("\x80\x02]X\1\0\0\0"
                                             "7a.")),
                   "belongs to no tensor");
    assert_refused(old_file(B(DICT(GOOD)), B("\x80\x02]X\1\0\0\0"
                                             "0aX\1\0\0\0"
                                             "0a.")),
                   "the file ends before");
}

TEST(every_truncation_is_refused)
{
    size_t size;
    char *whole = read_file(old_file(B(DICT(GOOD)), KEYS), &size);
    for (size_t cut = 0; cut < size; cut++) {
        clt_safetensors *file;
        assert_int_equal(open_bytes(put_file("cut.pth", whole, cut), &file), CLT_ECHECKPOINT);
    }
    free(whole);
}

/* --- archives --- */

typedef struct zipped {
    const char *name;
    bytes data;
    uint32_t method, flags, shift; /* shift: error of its offset in the directory */
    const char *local_name;        /* NULL: the name */
} zipped;

static void add_number(clt_str *s, uint64_t value, int size)
{
    for (int i = 0; i < size; i++, value >>= 8)
        clt_str_append_n(s, (char[]){(char)(value & 255)}, 1);
}

/* Writes an archive; its end record says `count` entries. */
static const char *archive(const zipped *entries, int n, uint64_t count, const char *tail)
{
    CLT_SCOPED(clt_str) s = {0};
    CLT_SCOPED(clt_str) directory = {0};
    for (int i = 0; i < n; i++) {
        const zipped *e = &entries[i];
        const char *local = e->local_name ? e->local_name : e->name;
        size_t begin = s.length;
        uint32_t crc = (uint32_t)crc32(0, (const Bytef *)e->data.at, (uInt)e->data.size);
        add(&s, B("PK\3\4"));
        add_number(&s, 0, 22);
        add_number(&s, strlen(local), 2);
        add_number(&s, 0, 2);
        clt_str_append(&s, local);
        add(&s, e->data);
        add(&directory, B("PK\1\2\0\0\0\0"));
        add_number(&directory, e->flags, 2);
        add_number(&directory, e->method, 2);
        add_number(&directory, 0, 4);
        add_number(&directory, crc, 4);
        add_number(&directory, e->data.size, 4);
        add_number(&directory, e->data.size, 4);
        add_number(&directory, strlen(e->name), 2);
        add_number(&directory, 0, 12);
        add_number(&directory, begin + e->shift, 4);
        clt_str_append(&directory, e->name);
    }
    size_t at = s.length;
    clt_str_append_n(&s, directory.text ? directory.text : "", directory.length);
    add(&s, B("PK\5\6\0\0\0\0"));
    add_number(&s, count, 2);
    add_number(&s, count, 2);
    add_number(&s, directory.length, 4);
    add_number(&s, at, 4);
    add_number(&s, strlen(tail), 2);
    clt_str_append(&s, tail);
    return put_file("x.pth", s.text, s.length);
}

#define ZIPPED                                                                                               \
    "(" TEXT_STORAGE "ctorch\nFloatStorage\nX\1\0\0\0"                                                       \
    "0X\3\0\0\0cpuK\4tQ"
#define PICKLE B(DICT(TENSOR_IN(ZIPPED, "K\0", "K\4\x85", "K\1\x85")))
#define DATA16 B("\0\0\x80\x3f\0\0\0\x40\0\0\0\0\0\0\0\0")

#define E(name_, ...)                                                                                        \
    {                                                                                                        \
        .name = name_, .data = __VA_ARGS__                                                                   \
    }

TEST(a_good_archive_is_read)
{
    const zipped good[] = {E("a/data.pkl", PICKLE), E("a/data/0", DATA16)};
    assert_int_equal(count_in(archive(good, 2, 2, "")), 1);
    assert_int_equal(count_in(archive(good, 2, 2, "a comment")), 1);
}

TEST(archives_that_lie)
{
    const struct {
        zipped entries[3];
        int n;
        uint64_t count;
        const char *part;
    } bad[] = {
        {{E("a/data.pkl", PICKLE, .method = 8), E("a/data/0", DATA16)}, 2, 2, "is compressed (method 8)"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16, .method = 8)}, 2, 2, "is compressed (method 8)"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16, .flags = 1)}, 2, 2, "is encrypted"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16, .shift = 1)}, 2, 2, "does not begin at byte"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16, .shift = 1u << 30)}, 2, 2, "does not begin at byte"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16, .local_name = "a/data/1")}, 2, 2, "another name"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16), E("a/data/0", DATA16)},
         3,
         3,
         "two entries with the name"},
        {{E("a/data.pkl", PICKLE), E("b/data.pkl", PICKLE), E("a/data/0", DATA16)}, 3, 3, "has two pickles"},
        {{E("a/data.pkl", PICKLE)}, 1, 1, "has no entry 'a/data/0'"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", B("12345678"))}, 2, 2, "has 8 bytes, its pickle says 16"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16), E("a/constants.pkl", B("x"))}, 3, 3, "TorchScript"},
        {{E("a/data.pkl", PICKLE), E("a/code/x.py", B("x"), .method = 8)}, 2, 2, "TorchScript"},
        {{E("a/data.pkl", PICKLE), E("a/byteorder", B("big"))}, 2, 2, "not little-endian"},
        {{E("weights.npy", DATA16)}, 1, 1, "a zip archive without data.pkl"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16)}, 2, 60000, "do not fit in the archive's directory"},
        {{E("a/data.pkl", PICKLE), E("a/data/0", DATA16)}, 2, 3, "do not fit in the archive's directory"},
        {{E("a/data.pkl", PICKLE), E("a/\x1b[0m", DATA16)}, 2, 2, "is not plain text"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(archive(bad[i].entries, bad[i].n, bad[i].count, ""), bad[i].part);
}

/* Changes one byte of a good archive; -1 counts from the end. */
static void assert_change_refused(long at, char to, const char *part)
{
    const zipped good[] = {E("a/data.pkl", PICKLE), E("a/data/0", DATA16)};
    size_t size;
    char *whole = read_file(archive(good, 2, 2, ""), &size);
    whole[at < 0 ? (long)size + at : at] = to;
    assert_refused(put_file("changed.pth", whole, size), part);
    free(whole);
}

TEST(damaged_archives)
{
    assert_change_refused(50, 'Z', "CRC-32");
    assert_change_refused(-1, 1, "no directory at its end");
    assert_change_refused(-22, 'Q', "no directory at its end");
    assert_change_refused(-3, 0x7f, "beyond the end of the file");
    assert_change_refused(-18, 1, "one of several parts");
    char tar[600] = "weights";
    memcpy(tar + 257, "ustar", 5);
    assert_refused(put_file("x.tar", tar, sizeof tar), "a tar archive");
    assert_refused(put_text("x.pth", "PK\3\4"), "no directory");
    assert_refused(put_text("x.pth", "\x80\2}."), "not one that torch.save wrote");
}

/* Files with random changes are read to their last value or refused. */
TEST(random_changes)
{
    const zipped good[] = {E("a/data.pkl", PICKLE), E("a/data/0", DATA16)};
    size_t size[2];
    char *whole[2] = {read_file(archive(good, 2, 2, ""), &size[0]),
                      read_file(old_file(B(DICT(GOOD)), KEYS), &size[1])};
    uint32_t random = 1;
    for (int i = 0; i < 1500; i++) {
        char *copy = malloc(size[i % 2]);
        assert_non_null(copy);
        memcpy(copy, whole[i % 2], size[i % 2]);
        for (int k = 0; k < 1 + i % 3; k++) {
            random = random * 1664525u + 1013904223u;
            copy[(random >> 8) % size[i % 2]] = (char)(random >> 24);
        }
        CLT_SCOPED(clt_safetensors) *file = NULL;
        if (open_bytes(put_file("changed.pth", copy, size[i % 2]), &file) == CLT_OK)
            for (int t = 0; t < clt_safetensors_count(file); t++) {
                const clt_named_tensor *tensor = clt_safetensors_at(file, t);
                CLT_FREED float *values = malloc((size_t)clt_shape_elements(&tensor->shape) * 4 + 4);
                (void)clt_named_tensor_to_f32(tensor, values);
            }
        free(copy);
    }
    free(whole[0]);
    free(whole[1]);
}
