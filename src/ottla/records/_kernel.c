/* The extension module ottla.records._kernel: the work that takes a step per record, without Python's cost per step.
 *
 * Optional: `kernel` of records/kernel.py is None where this was not built, and everything exists in Python or numpy
 * too, with the same results. The format is in _kernel_format.h, _kernel_columns.h and _kernel_walk.h, plain C that is
 * fuzzed alone; the other headers have the Python types. */
#include "_kernel_appender.h"
#include "_kernel_fast_append.h"
#include "_kernel_record.h"
#include "_kernel_sink.h"
#include "_kernel_walk.h"

/* Count it up when a name, an argument or a result changes; records/kernel.py ignores builds with another number. */
#define INTERFACE 4

/* murmur2(key) -> the hash as an unsigned 32-bit number */
static PyObject *murmur2(PyObject *module, PyObject *key)
{
    const uint8_t *data;
    int64_t size;
    Py_buffer view;
    if (!take_bytes(key, &data, &size, &view))
        return NULL;
    if (size < 0) {
        PyErr_SetString(PyExc_TypeError, "a key of bytes is expected, not None");
        return NULL;
    }
    uint32_t hash = kernel_murmur2(data, (size_t)size);
    release_view(&view);
    return PyLong_FromUnsignedLong(hash);
}

/* hash_keys(key column, count) -> an int32 for each key: the hash without its sign, or -1 for a null key */
static PyObject *hash_keys(PyObject *module, PyObject *arguments)
{
    PyObject *column;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "On:hash_keys", &column, &count))
        return NULL;
    if (count < 0 || count > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd keys", count);
        return NULL;
    }
    held_views held = {.count = 0};
    kernel_values keys;
    PyObject *hashes = NULL;
    if (take_values(&held, column, &keys, (size_t)count))
        hashes = PyByteArray_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int32_t));
    if (hashes != NULL) {
        char *out = PyByteArray_AsString(hashes);
        for (size_t index = 0; index < (size_t)count; index++) {
            const uint8_t *key = NULL;
            int64_t key_bytes;
            if (!kernel_value_at(&keys, index, &key, &key_bytes)) {
                PyErr_Format(PyExc_ValueError, "key %zu lies outside of its array", index);
                Py_CLEAR(hashes);
                break;
            }
            int32_t hash = key_bytes < 0 ? -1 : (int32_t)(kernel_murmur2(key, (size_t)key_bytes) & 0x7FFFFFFF);
            memcpy(out + index * sizeof hash, &hash, sizeof hash);
        }
    }
    release_views(&held);
    return hashes;
}

static PyObject *list_of_indexes(const kernel_bytes *indexes)
{
    Py_ssize_t count = (Py_ssize_t)(indexes->size / sizeof(int32_t));
    PyObject *list = PyList_New(count);
    for (Py_ssize_t at = 0; list != NULL && at < count; at++) {
        int32_t index;
        memcpy(&index, indexes->data + (size_t)at * sizeof index, sizeof index);
        PyObject *number = PyLong_FromLong(index);
        if (number == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, at, number);
    }
    return list;
}

/* walk_records(data, position, record count, base timestamp, with keyless)
 * -> (smallest timestamp, largest timestamp, indexes of the records without a key or None); raises CorruptBatch */
static PyObject *walk_records(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "walk_records takes a buffer, a position, two numbers and a truth value");
        return NULL;
    }
    /* Each call may run the caller's code, which must not start with an error set. */
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]);
    int64_t record_count = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[2]);
    int64_t base_timestamp_ms = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[3]);
    int with_keyless = PyErr_Occurred() ? -1 : PyObject_IsTrue(arguments[4]);
    if (with_keyless < 0)
        return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(arguments[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (position < 0 || position > view.len) {
        PyErr_Format(PyExc_ValueError, "position %zd in %zd bytes", position, view.len);
        PyBuffer_Release(&view);
        return NULL;
    }
    kernel_walk walk;
    kernel_bytes keyless = {NULL, 0, 0};
    const uint8_t *data = (const uint8_t *)view.buf + position;
    size_t size = (size_t)(view.len - position);
    const char *fault;
    if (size < UNLOCKED_BYTES) {
        fault = kernel_walk_records(data, size, record_count, base_timestamp_ms, &walk, with_keyless ? &keyless : NULL);
    } else {
        Py_BEGIN_ALLOW_THREADS
        fault = kernel_walk_records(data, size, record_count, base_timestamp_ms, &walk, with_keyless ? &keyless : NULL);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    PyObject *result = NULL;
    if (fault == NULL) {
        PyObject *indexes = with_keyless ? list_of_indexes(&keyless) : Py_NewRef(Py_None);
        if (indexes != NULL)
            result = Py_BuildValue("(LLN)", (long long)walk.min_timestamp_ms, (long long)walk.max_timestamp_ms, indexes);
    } else if (strcmp(fault, KERNEL_NO_MEMORY_FOR_KEYLESS) == 0) {
        PyErr_NoMemory();
    } else {
        PyErr_Format(corrupt_batch, "record %lld %s", (long long)walk.index, fault);
    }
    kernel_release(&keyless);
    return result;
}

static PyMethodDef module_methods[] = {
    {"walk_records", (PyCFunction)(void (*)(void))walk_records, METH_FASTCALL, NULL},
    {"split_records", (PyCFunction)(void (*)(void))split_records, METH_FASTCALL, NULL},
    {"murmur2", murmur2, METH_O, NULL},
    {"hash_keys", hash_keys, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, .m_name = "ottla.records._kernel", .m_size = -1, .m_methods = module_methods};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL || PyModule_AddObjectRef(module, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type; /* this reference lives as long as the process */
}

PyMODINIT_FUNC PyInit__kernel(void)
{
    PyObject *errors = PyImport_ImportModule("ottla.records.errors");
    if (errors == NULL)
        return NULL;
    corrupt_batch = PyObject_GetAttrString(errors, "CorruptBatch");
    Py_DECREF(errors);
    PyObject *module = corrupt_batch != NULL ? PyModule_Create(&module_definition) : NULL;
    if (module == NULL)
        return NULL;
    fetched_record_type = add_type(module, &record_spec, "FetchedRecord");
    owned_buffer_type = add_type(module, &buffer_spec, "OwnedBuffer");
    if (fetched_record_type == NULL || owned_buffer_type == NULL ||
        (appender_type = add_type(module, &appender_spec, "Appender")) == NULL ||
        add_type(module, &sink_spec, "ColumnSink") == NULL ||
        PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 || !add_fast_append(module, add_type)) {
        Py_DECREF(module);
        return NULL;
    }
    allocate_record = (allocfunc)PyType_GetSlot(fetched_record_type, Py_tp_alloc);
    return module;
}
