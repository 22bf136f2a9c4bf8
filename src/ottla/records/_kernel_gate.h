/* Gate: the short way of a record into the open batch of its partition, for a producer's `send`.
 *
 * It serves the common call (a topic that is known, bytes or None, a batch with room) and hands every other one to
 * Python, with the very same arguments. A call runs under the interpreter's lock from the look at the open batch to the
 * record's place in it, and a batch is closed by one assignment to `Door.open`: so no other lock is needed. */
#ifndef OTTLA_KERNEL_GATE_H
#define OTTLA_KERNEL_GATE_H

#include <time.h>

#include "_kernel_appender.h"

static PyTypeObject *appender_type, *door_type, *topic_doors_type;
static PyObject *name_appender, *name_key, *name_value;

#define FREE(self, type)                                                                                               \
    do {                                                                                                               \
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);                                                            \
        Py_DECREF(type);                                                                                               \
    } while (0)

/* ---- Door: one partition; `open` is the batch that records are added to, or None ---- */

typedef struct {
    PyObject_HEAD
    PyObject *open;
    appender *appender; /* that of `open` */
} door;

static int door_traverse(door *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->open);
    Py_VISIT((PyObject *)self->appender);
    return 0;
}

static int door_clear(door *self)
{
    Py_CLEAR(self->open);
    Py_CLEAR(self->appender);
    return 0;
}

static void door_dealloc(door *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    door_clear(self);
    FREE(self, type);
}

static PyObject *door_get_open(door *self, void *unused)
{
    return Py_NewRef(self->open != NULL ? self->open : Py_None);
}

static int door_set_open(door *self, PyObject *batch, void *unused)
{
    PyObject *filled = NULL;
    if (batch == Py_None)
        batch = NULL;
    if (batch != NULL) {
        filled = PyObject_GetAttr(batch, name_appender);
        if (filled == NULL)
            return -1;
        if (!PyObject_TypeCheck(filled, appender_type)) {
            PyErr_SetString(PyExc_TypeError, "the appender of a batch is expected to be the kernel's");
            Py_DECREF(filled);
            return -1;
        }
    }
    PyObject *old_open = self->open;
    appender *old_appender = self->appender;
    Py_XINCREF(batch);
    self->open = batch;
    self->appender = (appender *)filled;
    Py_XDECREF(old_open);
    Py_XDECREF((PyObject *)old_appender);
    return 0;
}

static PyGetSetDef door_getset[] = {
    {"open", (getter)door_get_open, (setter)door_set_open, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot door_slots[] = {
    {Py_tp_doc, "A partition that a producer sends to; clients/producer/queue.py has its face."},
    {Py_tp_dealloc, door_dealloc},
    {Py_tp_traverse, door_traverse},
    {Py_tp_clear, door_clear},
    {Py_tp_getset, door_getset},
    {0, NULL},
};

static PyType_Spec door_spec = {
    .name = "ottla.records._kernel.Door",
    .basicsize = sizeof(door),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = door_slots,
};

/* ---- TopicDoors: the partitions of a topic, and the one for records without a key ---- */

typedef struct {
    PyObject_HEAD
    PyObject *queues; /* a list of Door */
    PyObject *sticky; /* a Door or None */
    char ignores_keys;
} topic_doors;

static int topic_doors_traverse(topic_doors *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->queues);
    Py_VISIT(self->sticky);
    return 0;
}

static int topic_doors_clear(topic_doors *self)
{
    Py_CLEAR(self->queues);
    Py_CLEAR(self->sticky);
    return 0;
}

static void topic_doors_dealloc(topic_doors *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    topic_doors_clear(self);
    FREE(self, type);
}

static PyMemberDef topic_doors_members[] = {
    {"queues", T_OBJECT, offsetof(topic_doors, queues), 0, NULL},
    {"sticky", T_OBJECT, offsetof(topic_doors, sticky), 0, NULL},
    {"ignores_keys", T_BOOL, offsetof(topic_doors, ignores_keys), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot topic_doors_slots[] = {
    {Py_tp_doc, "The partitions of a topic; clients/producer/topic_queues.py has its face."},
    {Py_tp_dealloc, topic_doors_dealloc},
    {Py_tp_traverse, topic_doors_traverse},
    {Py_tp_clear, topic_doors_clear},
    {Py_tp_members, topic_doors_members},
    {0, NULL},
};

static PyType_Spec topic_doors_spec = {
    .name = "ottla.records._kernel.TopicDoors",
    .basicsize = sizeof(topic_doors),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = topic_doors_slots,
};

/* ---- Delivery: what `send` returns; a batch, and a record's index in it ---- */

typedef struct {
    PyObject_HEAD
    PyObject *batch;
    long long index;
    long long timestamp_ms;
} delivery;

static PyObject *delivery_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *batch;
    long long index, timestamp_ms;
    if (!PyArg_ParseTuple(arguments, "OLL:Delivery", &batch, &index, &timestamp_ms))
        return NULL;
    delivery *self = (delivery *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->batch = Py_NewRef(batch);
        self->index = index;
        self->timestamp_ms = timestamp_ms;
    }
    return (PyObject *)self;
}

static void delivery_dealloc(delivery *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->batch);
    FREE(self, type);
}

static PyMemberDef delivery_members[] = {
    {"_batch", T_OBJECT_EX, offsetof(delivery, batch), READONLY, NULL},
    {"_index", T_LONGLONG, offsetof(delivery, index), READONLY, NULL},
    {"_timestamp_ms", T_LONGLONG, offsetof(delivery, timestamp_ms), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot delivery_slots[] = {
    {Py_tp_doc, "One record of a batch; clients/producer/handle.py has its face."},
    {Py_tp_new, delivery_new},
    {Py_tp_dealloc, delivery_dealloc},
    {Py_tp_members, delivery_members},
    {0, NULL},
};

static PyType_Spec delivery_spec = {
    .name = "ottla.records._kernel.Delivery",
    .basicsize = sizeof(delivery),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = delivery_slots,
};

static PyTypeObject *delivery_type;

/* ---- Gate ---- */

typedef struct {
    PyObject_HEAD
    PyObject *topics; /* a dict of TopicDoors by name */
    PyTypeObject *handle_type;
    allocfunc allocate_handle;
    PyObject *slow; /* called with what the gate doesn't serve */
} gate;

static PyObject *gate_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *topics, *handle_type, *slow;
    if (!PyArg_ParseTuple(arguments, "O!O!O:Gate", &PyDict_Type, &topics, &PyType_Type, &handle_type, &slow))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)handle_type, delivery_type)) {
        PyErr_SetString(PyExc_TypeError, "a subclass of Delivery is expected");
        return NULL;
    }
    gate *self = (gate *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->topics = Py_NewRef(topics);
        self->handle_type = (PyTypeObject *)Py_NewRef(handle_type);
        self->allocate_handle = (allocfunc)PyType_GetSlot(self->handle_type, Py_tp_alloc);
        self->slow = Py_NewRef(slow);
    }
    return (PyObject *)self;
}

static int gate_traverse(gate *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->topics);
    Py_VISIT((PyObject *)self->handle_type);
    Py_VISIT(self->slow);
    return 0;
}

static int gate_clear(gate *self)
{
    Py_CLEAR(self->topics);
    Py_CLEAR(self->slow);
    return 0;
}

static void gate_dealloc(gate *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    gate_clear(self);
    Py_CLEAR(self->handle_type);
    FREE(self, type);
}

static PyObject *gate_call_slow(gate *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *positional = PyTuple_New(count);
    PyObject *named = names != NULL ? PyDict_New() : NULL;
    if (positional == NULL || (names != NULL && named == NULL))
        goto failed;
    for (Py_ssize_t index = 0; index < count; index++)
        PyTuple_SetItem(positional, index, Py_NewRef(arguments[index]));
    for (Py_ssize_t index = 0; named != NULL && index < PyTuple_Size(names); index++) {
        if (PyDict_SetItem(named, PyTuple_GetItem(names, index), arguments[count + index]) < 0)
            goto failed;
    }
    PyObject *result = PyObject_Call(self->slow, positional, named);
    Py_DECREF(positional);
    Py_XDECREF(named);
    return result;
failed:
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return NULL;
}

/* The door of a record; NULL where Python has to find it. Borrowed. */
static door *gate_door(gate *self, PyObject *topic, PyObject *key)
{
    if (!PyUnicode_Check(topic) || self->topics == NULL)
        return NULL;
    topic_doors *doors = (topic_doors *)PyDict_GetItemWithError(self->topics, topic);
    if (doors == NULL) {
        PyErr_Clear(); /* a key that can't be compared: Python says so */
        return NULL;
    }
    if (!PyObject_TypeCheck((PyObject *)doors, topic_doors_type))
        return NULL;
    PyObject *found = doors->sticky;
    if (key != Py_None && !doors->ignores_keys) {
        Py_ssize_t count = doors->queues != NULL && PyList_Check(doors->queues) ? PyList_Size(doors->queues) : 0;
        if (count == 0)
            return NULL;
        uint32_t hash = kernel_murmur2((const uint8_t *)PyBytes_AsString(key), (size_t)PyBytes_Size(key));
        found = PyList_GetItem(doors->queues, (Py_ssize_t)(hash & 0x7FFFFFFF) % count);
    }
    return found != NULL && PyObject_TypeCheck(found, door_type) ? (door *)found : NULL;
}

/* send(topic, value=None, key=None, ...) -> a handle */
static PyObject *gate_send(gate *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    PyObject *value = NULL, *key = NULL;
    if (count < 1 || count > 3)
        goto slow;
    if (count > 1)
        value = arguments[1];
    if (count > 2)
        key = arguments[2];
    Py_ssize_t named = names != NULL ? PyTuple_Size(names) : 0;
    for (Py_ssize_t index = 0; index < named; index++) {
        PyObject *name = PyTuple_GetItem(names, index);
        PyObject **place = name == name_value ? &value : name == name_key ? &key : NULL;
        if (place == NULL || *place != NULL)
            goto slow; /* an argument of the long way, or a mistake */
        *place = arguments[count + index];
    }
    value = value != NULL ? value : Py_None;
    key = key != NULL ? key : Py_None;
    if ((value != Py_None && !PyBytes_CheckExact(value)) || (key != Py_None && !PyBytes_CheckExact(key)))
        goto slow;
    door *chosen = gate_door(self, arguments[0], key);
    if (chosen == NULL || chosen->open == NULL || chosen->appender->is_busy)
        goto slow;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t timestamp_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    kernel_batch *batch = &chosen->appender->batch;
    const uint8_t *key_data = key != Py_None ? (const uint8_t *)PyBytes_AsString(key) : NULL;
    const uint8_t *value_data = value != Py_None ? (const uint8_t *)PyBytes_AsString(value) : NULL;
    int outcome = kernel_append_record(batch, timestamp_ms, key_data, key != Py_None ? PyBytes_Size(key) : -1, value_data,
                                       value != Py_None ? PyBytes_Size(value) : -1, (const uint8_t *)"", 1);
    if (outcome != KERNEL_APPENDED)
        goto slow;
    /* From here on the record is in the batch: nothing may run that could close it before the index is taken. */
    int64_t index = batch->record_count - 1;
    PyObject *open = Py_NewRef(chosen->open);
    delivery *handle = (delivery *)self->allocate_handle(self->handle_type, 0);
    if (handle == NULL) {
        Py_DECREF(open);
        return NULL;
    }
    handle->batch = open;
    handle->index = index;
    handle->timestamp_ms = timestamp_ms;
    return (PyObject *)handle;
slow:
    return gate_call_slow(self, arguments, count, names);
}

static PyMethodDef gate_methods[] = {
    {"send", (PyCFunction)(void (*)(void))gate_send, METH_FASTCALL | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot gate_slots[] = {
    {Py_tp_doc, "The short way of a record into its batch; clients/producer/gate.py says when it is there."},
    {Py_tp_new, gate_new},
    {Py_tp_dealloc, gate_dealloc},
    {Py_tp_traverse, gate_traverse},
    {Py_tp_clear, gate_clear},
    {Py_tp_methods, gate_methods},
    {0, NULL},
};

static PyType_Spec gate_spec = {
    .name = "ottla.records._kernel.Gate",
    .basicsize = sizeof(gate),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = gate_slots,
};

/* Adds the types to the module; 0 with an exception set where that failed. */
static int add_gate(PyObject *module, PyTypeObject *(*add_type)(PyObject *, PyType_Spec *, const char *))
{
    name_appender = PyUnicode_InternFromString("appender");
    name_key = PyUnicode_InternFromString("key");
    name_value = PyUnicode_InternFromString("value");
    door_type = add_type(module, &door_spec, "Door");
    topic_doors_type = add_type(module, &topic_doors_spec, "TopicDoors");
    delivery_type = add_type(module, &delivery_spec, "Delivery");
    return name_appender != NULL && name_key != NULL && name_value != NULL && door_type != NULL &&
           topic_doors_type != NULL && delivery_type != NULL && add_type(module, &gate_spec, "Gate") != NULL;
}

#endif
