/* What the parts of the extension module share. The limited API of 3.11 is all they use: one build serves every later
 * Python. */
#ifndef OTTLA_KERNEL_MODULE_H
#define OTTLA_KERNEL_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include "_kernel_columns.h"

static PyObject *corrupt_batch; /* ottla.records.errors.CorruptBatch */

static PyObject *raise_fault(const char *fault, const kernel_batch_view *view)
{
    if (fault == KERNEL_OUT_OF_MEMORY)
        return PyErr_NoMemory();
    if (fault == KERNEL_COLUMN_FULL)
        return PyErr_Format(PyExc_OverflowError, "batch of offset %lld: %s", (long long)view->base_offset, fault);
    return PyErr_Format(corrupt_batch, "batch of offset %lld: %s", (long long)view->base_offset, fault);
}

/* Takes the seven last arguments of `split_records` and of `ColumnSink.append`. */
static int read_view(PyObject *const *arguments, kernel_batch_view *view)
{
    view->base_offset = PyLong_AsLongLong(arguments[0]);
    view->base_timestamp_ms = PyLong_AsLongLong(arguments[1]);
    view->has_append_time = arguments[2] != Py_None;
    view->append_time_ms = view->has_append_time ? PyLong_AsLongLong(arguments[2]) : 0;
    view->last_offset_delta = PyLong_AsLongLong(arguments[3]);
    view->record_count = PyLong_AsLongLong(arguments[4]);
    view->from_offset = PyLong_AsLongLong(arguments[5]);
    view->to_offset = PyLong_AsLongLong(arguments[6]);
    return PyErr_Occurred() == NULL;
}

#define VIEW_ARGUMENTS 7

/* Work below this size keeps the interpreter's lock: releasing it and waiting for it again costs more. */
#define UNLOCKED_BYTES (256 * 1024)

#endif
