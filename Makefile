# Tandem: one Makefile, no recursion.
#
#   make              tandem, tandem-npu, tandem-stress, libtandem and
#                     libtandem-coherence, in build/VARIANT/
#   make test         build and run every test of this variant
#   make tests        build the test programs; fuzzers: the fuzz targets;
#                     extras: what else the command-line tests run
#   make fuzz         FUZZ_RUNS mutated inputs to each fuzz target;
#                     with CC=clang FUZZER=1 by libFuzzer
#   make oom          fail every single allocation of short runs
#   make coverage     lines of the product that the tests run, by room
#   make bench        what the channel and this machine can do
#   make check-layers check-headers check-syntax check-format
#   make format       clang-format on every source
#   make install      to DESTDIR/PREFIX, libraries to DESTDIR/LIBDIR, with
#                     man pages, completion and the models of flash/models
#   make uninstall man clean help
#   make dist         a tarball of what is committed, in build/dist
#   make deb          Debian packages of that tarball, in build/deb
#
#   BUILD=release|debug       SANITIZE=address,undefined or thread
#   CC=gcc|clang              O=DIR: build there instead
#   CFLAGS= LDFLAGS=          added to ours
#   V=1                       show the commands

BUILD    ?= release
SANITIZE ?=
FUZZER   ?=
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
DESTDIR  ?=

comma    := ,
empty    :=
space    := $(empty) $(empty)
quote    := '
ifneq ($(FUZZER),)
SANITIZE := $(or $(SANITIZE),address$(comma)undefined)
endif
variant  := $(subst $(space),-,$(strip $(BUILD) $(subst $(comma),-,$(SANITIZE)) \
	$(if $(FUZZER),fuzzer)))
O        ?= build/$(variant)
Q        := $(if $(V),,@)
say       = $(if $(V),,$(info $(space) $(1) $(2)))

.DELETE_ON_ERROR:
.PHONY: all FORCE
all:

ifeq ($(filter release debug,$(BUILD)),)
$(error BUILD is release or debug, not '$(BUILD)')
endif

# ---- libraries ----------------------------------------------------------
libs_base   :=
libs_tensor :=
libs_soc    :=
libs_coherence := jansson
libs_hexagon := jansson
libs_shm    :=
libs_ipc    :=
libs_flash  := libzstd liburing libxxhash
libs_device := libseccomp jansson
libs_text   := libpcre2-8 libxxhash jansson
libs_session := libxxhash
libs_eval   := jansson
libs_doctor := dbus-1 jansson liburing libzstd
libs_bench  := dbus-1 jansson # and libcurl: host/bench/serve_client.h
libs_serve  := jansson dbus-1 # and libmicrohttpd: host/serve/httpd.h
libs_cmd    := jansson libedit
libs_stress := jansson
libs_test   := cmocka
all_libs    := $(sort libcurl libmicrohttpd $(foreach r,flash device text session eval \
	doctor bench serve cmd stress test,$(libs_$(r))))

# What needs no compiler needs no library either.
bare_goals := clean help uninstall format check-format check-layers dist deb
ifneq ($(or $(if $(MAKECMDGOALS),,all),$(filter-out $(bare_goals),$(MAKECMDGOALS))),)
missing := $(shell for l in $(all_libs); do \
	pkg-config --exists $$l 2>/dev/null || echo $$l; done)
ifneq ($(missing),)
$(error missing: $(missing); scripts/deps installs what is needed)
endif
pkg_cflags := $(shell pkg-config --cflags $(all_libs))
endif
pkg_libs    = $(if $(strip $(1)),$(shell pkg-config --libs $(1)))

# ---- flags --------------------------------------------------------------
warnings := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wcast-qual -Wwrite-strings -Wvla -Wformat=2 -Wundef \
	-Wno-unused-parameter -Wno-missing-field-initializers
# -g1: functions and lines, no variables, which take a fifth of compiling.
opt_release := -O2 -g1
opt_debug   := -Og -DDEBUG
# With a sanitizer's checks in it, a compiler that optimizes fully takes 2 to 10
# times as long, minutes for one file of kernels. Reports need lines only (-g1),
# and what may be uninitialized is for a compiler that follows values to say.
opt := $(if $(SANITIZE),-Og -g1 \
	$(if $(findstring clang,$(CC)),,-Wno-maybe-uninitialized),$(opt_$(BUILD)))
# -ffp-contract=off: one rounding per operation, so that a kernel compiled
# for another instruction set gives the same bytes.
# -ffile-prefix-map: so that two checkouts give one binary.
# -fPIC: every object may go into the shared library; -fvisibility=hidden: of
# all that is there, only what public headers export has a name outside.
# WORKERS_WORTH: the thread sanitizer is to see small models' loops shared, too.
# In functions with more memory accesses than this (unrolled vector code), gcc
# calls a check for each rather than inlining it: such a file compiles in less
# than half the time.
asan_calls := $(if $(findstring clang,$(CC)),, \
	--param asan-instrumentation-with-call-threshold=100)
common := -std=gnu11 -D_GNU_SOURCE -I. $(warnings) \
	-fno-strict-aliasing -ffp-contract=off -pthread -fno-common \
	-fPIC -fvisibility=hidden \
	'-ffile-prefix-map=$(CURDIR)=.' $(pkg_cflags)
cflags := $(common) -g $(opt) \
	$(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer) \
	$(if $(findstring undefined,$(SANITIZE)), \
		-fsanitize=float-cast-overflow -fno-sanitize-recover=all) \
	$(if $(findstring address,$(SANITIZE)),$(asan_calls)) \
	$(if $(findstring thread,$(SANITIZE)),-DWORKERS_WORTH=1ull \
		-DWORKERS_WORTH_AWAKE=1ull -DWORKERS_SURE=1ull) \
	$(if $(FUZZER),-fsanitize=fuzzer-no-link -DTANDEM_LIBFUZZER) \
	$(CFLAGS)
# Tests are compiled fast rather than run fast; those of long computations
# (references, models by hand) are compiled as the product is. A sanitizer
# watches the product alone, and its build links the test objects of the plain
# build (tests_in); only the thread sanitizer has to see both sides.
tests_apart := $(and $(SANITIZE),$(if $(FUZZER)$(findstring thread,$(SANITIZE)),,y))
plain := $(patsubst %-$(subst $(comma),-,$(SANITIZE)),%,$(O))
tests_in := $(if $(tests_apart),$(plain),$(O))
cflags_plain := $(common) -g $(opt_$(BUILD)) $(CFLAGS)
cflags_tests := $(if $(tests_apart),$(cflags_plain),$(cflags))
opt_tests := -O0 $(if $(filter release,$(BUILD)),-g1)
computing := tests/litmus/% tests/stress/% tests/host/npu/fake_% $(patsubst %,tests/%.c, \
	shm/coherence/measure_coherence \
	shm/coherence/measure_litmus host/draft/measure_suffix_automaton \
	host/text/measure_json_form device/test_serve shm/coherence/test_litmus \
	host/api/test_requests_schedule \
	host/draft/test_drafter_sam host/draft/test_suffix_tree \
	host/draft/test_suffix_automaton host/head/test_reward \
	host/method/test_beam host/method/test_block host/method/test_choosing \
	host/method/test_dream host/method/test_diffusion_methods \
	host/method/test_diffusion_shipped host/method/test_methods_fake \
	host/method/test_samples host/session/test_sequence \
	host/session/test_session_fake host/session/test_session_lost \
	host/session/test_session_switch host/session/test_session_swap)
# What the address and undefined checks know of the source is megabytes of
# pointers, which a position-independent program relocates whenever it starts.
ldflags := -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) \
	$(if $(tests_apart),-no-pie) $(LDFLAGS)
ldflags_plain := -pthread $(LDFLAGS)
# ccache keeps objects between builds, where it is installed.
compile := $(if $(findstring ccache,$(CC)),,$(shell command -v ccache)) $(CC)
arch    := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))

# ---- sources ------------------------------------------------------------
outer := base tensor shm ipc flash device
# The rooms inside host/; scripts/check-layers holds the same arrows against
# every #include. The cost model (soc) lies inside tensor/.
inner := trace model text tree npu shipped memory session head draft convert \
	doctor scheduler method api eval bench serve cmd
rooms := $(outer) soc coherence hexagon $(inner) stress
folder_soc    := tensor/soc
folder_coherence := shm/coherence
folder_hexagon := shm/coherence/hexagon
folder_stress := tests/stress
folder_of = $(or $(folder_$(1)),$(if $(filter $(1),$(inner)),host/)$(1))
$(foreach r,$(rooms),$(eval src_$(r) := $(filter-out tests/stress/test_%, \
	$(wildcard $(call folder_of,$(r))/*.c))))

mains := host/tandem.c device/tandem_npu.c tests/stress/tandem_stress.c
# Sources of vector kernels, compiled once for each instruction set.
kern_src := tensor/kern_vec.c tensor/kern_tile.c tensor/kern_q8.c \
	tensor/kern_attend.c tensor/kern_attend_rows.c tensor/kern_peak.c
src_tensor := $(filter-out $(kern_src),$(src_tensor))
isa_x86_64  := base avx2 avx512 vnni
isa_aarch64 := base dotprod i8mm
isas := $(or $(isa_$(arch)),base)
isa_flags_base   :=
isa_flags_avx2   := -mavx2 -mfma -mf16c
isa_flags_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c \
	-mprefer-vector-width=512
isa_flags_vnni   := $(isa_flags_avx512) -mavx512vnni
isa_flags_dotprod := -march=armv8.2-a+dotprod
isa_flags_i8mm    := -march=armv8.2-a+dotprod+i8mm
# Kernels of the widest instruction set that this machine has run the models,
# several times faster without a sanitizer's checks. The narrowest two, run by the
# kernels' own tests, have the checks; those between are the same sources with
# wider vectors. Which threads write where is seen in the models' runs, so the
# thread sanitizer watches the widest. The others are those of the plain build.
# `make unwatched=` watches all.
cpu := $(shell sed -n '/^\(flags\|Features\)/{s/.*: //p;q}' /proc/cpuinfo)
cpu_has = $(if $(filter $(1),$(cpu)),$(2))
widest := $(lastword base $(call cpu_has,avx2,avx2) \
	$(call cpu_has,avx512bw,avx512) $(call cpu_has,avx512_vnni,vnni) \
	$(call cpu_has,asimddp,dotprod) $(call cpu_has,i8mm,i8mm))
unwatched := $(if $(tests_apart),$(sort $(widest) \
	$(wordlist 3,9,$(isas))),$(if $(FUZZER),, \
	$(if $(SANITIZE),$(filter-out $(widest),$(isas)))))
isa_opt := $(if $(filter release,$(BUILD)),-O3)
plain_isas := $(if $(SANITIZE),$(unwatched),$(isas))

# Of rooms without threads and atomic variables the thread sanitizer's build takes
# the plain build's objects; `make plain_rooms=` watches all.
plain_rooms := $(if $(findstring thread,$(SANITIZE)), \
	model text tree shipped head scheduler method eval)
obj = $(patsubst %.c,$(O)/obj/%.o,$(filter-out tests/%,$(1))) \
	$(patsubst %.c,$(tests_in)/obj/%.o,$(filter tests/%,$(1)))
$(foreach r,$(rooms),$(eval obj_$(r) := $(if $(filter $(r),$(plain_rooms)), \
	$(src_$(r):%.c=$(plain)/obj/%.o), \
	$(call obj,$(filter-out $(mains),$(src_$(r)))))))
obj_kern := $(foreach i,$(isas),$(patsubst %.c, \
	$(if $(filter $(i),$(plain_isas)),$(plain),$(O))/obj/%.$(i).o,$(kern_src)))
obj_tensor += $(obj_kern)
obj_serve  += $(O)/obj/host/serve/page.o $(O)/obj/host/serve/bus_xml.o
obj_trace  += $(O)/obj/host/trace/timeline_page.o

lib = $(O)/lib$(1).a
# What each room stands on, itself first: the order of the link line too.
deps_base   := base
deps_tensor := tensor base
deps_soc    := soc tensor base
deps_coherence := coherence base
deps_hexagon := hexagon $(deps_coherence)
deps_shm    := shm $(deps_coherence)
deps_ipc    := ipc $(deps_shm)
deps_flash  := flash $(deps_shm)
deps_device := device ipc shm coherence soc tensor base
# Below every room of the host.
ground       := ipc flash shm coherence soc tensor base
deps_model   := model $(ground)
deps_text    := text $(ground)
deps_tree    := tree $(ground)
deps_trace   := trace $(ground)
deps_npu     := npu $(deps_trace)
deps_shipped := shipped $(ground)
deps_convert := convert $(deps_model)
deps_doctor  := doctor $(deps_npu)
deps_memory  := memory npu trace $(deps_model)
deps_session := session $(deps_memory)
deps_head    := head text shipped $(deps_session)
deps_draft   := draft tree text shipped $(deps_session)
deps_scheduler := scheduler head $(deps_draft)
deps_method  := method $(deps_scheduler)
deps_api     := api $(deps_method)
deps_eval    := eval $(deps_api)
deps_stress  := stress convert doctor device $(deps_api)
deps_bench   := bench convert $(deps_eval)
deps_serve   := serve $(deps_api)
deps_cmd     := cmd serve doctor $(deps_bench)
deps_host    := $(deps_cmd)
libs_of      = $(sort $(foreach r,$(1),$(libs_$(r))))

programs := $(O)/tandem $(O)/tandem-npu $(O)/tandem-stress
version  := $(shell sed -n 's/^\#define TANDEM_VERSION "\(.*\)"/\1/p' \
	base/version.h)
major    := $(firstword $(subst ., ,$(version)))
all: $(programs) $(O)/libtandem.a $(O)/libtandem.so \
	$(O)/libtandem-coherence.a $(O)/libtandem-coherence.so

# ---- compiling ----------------------------------------------------------
# Rewritten only when they change: other flags build everything anew, and a
# source that is gone leaves its library. Every object needs its flags, so the
# folders of objects are made with them.
same_or_write = mkdir -p $(@D) && printf '%s\n' '$(subst $(quote),,$(1))' \
	>$@.new && { cmp -s $@.new $@ && rm -f $@.new || mv $@.new $@; }

folders := host $(foreach r,$(rooms),$(call folder_of,$(r))) \
	docs/examples/coherence
folders_tests := $(sort $(dir $(wildcard \
	tests/*.c tests/*/*.c tests/*/*/*.c tests/*/*/*/*.c)))

# $(1) of compiling, $(2) of linking
define flags_rule
	@mkdir -p $(folders:%=$(@D)/obj/%) $(@D)/gen
	@$(call same_or_write,$(shell $(CC) --version | head -n1) $(CC) \
		$(strip $(1) $(foreach i,$(isas),$(isa_flags_$i)) $(isa_opt) / $(2)))
endef
$(O)/flags: FORCE
	$(call flags_rule,$(cflags) $(unwatched:%=unwatched-%),$(ldflags))
ifneq ($(plain),$(O))
$(plain)/flags: FORCE
	$(call flags_rule,$(cflags_plain),$(ldflags_plain))

$(plain)/obj/%.o: %.c $(plain)/flags
	$(call say,CC,$<)
	$(Q)$(compile) $(cflags_plain) -MMD -MP -c -o $@ $<
endif

$(tests_in)/flags.tests: FORCE
	@mkdir -p $(folders_tests:%=$(tests_in)/obj/%)
	@$(call same_or_write,$(shell $(CC) --version | head -n1) $(CC) \
		$(strip $(cflags_tests) $(opt_tests) $(computing)))

$(O)/lib%.list: FORCE
	@$(call same_or_write,$(obj_$*))

$(foreach r,$(rooms),$(eval $(call lib,$(r)): $(obj_$(r))))
$(O)/lib%.a: $(O)/lib%.list
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsD $@ $(filter %.o,$^)

$(O)/obj/%.o: %.c $(O)/flags
	$(call say,CC,$<)
	$(Q)$(compile) $(cflags) -MMD -MP -c -o $@ $<

$(tests_in)/obj/tests/%.o: tests/%.c $(tests_in)/flags.tests
	$(call say,CC,$<)
	$(Q)$(compile) $(cflags_tests) $(if $(filter $(computing),$<),,$(opt_tests)) \
		-MMD -MP -c -o $@ $<

# The server's page, and what its objects on the bus are, a line of it a C
# string: $(1) header, $(2) name, $(3) file.
as_string = printf '\#include "host/serve/$(1)"\n\nconst char $(2)[] =\n'; \
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/' \
	host/serve/$(3); printf ';\n'
$(O)/gen/page.c: host/serve/page.html Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call as_string,page.h,page_html,page.html); \
		printf 'const size_t page_html_size = sizeof(page_html) - 1;\n'; \
	} >$@

faces := host/serve/dev.tandem.Engine1.xml host/serve/dev.tandem.Text1.xml
$(O)/gen/bus_xml.c: $(faces) Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call as_string,bus_xml.h,bus_engine_xml,dev.tandem.Engine1.xml); \
		$(call as_string,bus_xml.h,bus_text_xml,dev.tandem.Text1.xml); \
	} >$@

$(O)/obj/host/serve/page.o $(O)/obj/host/serve/bus_xml.o: \
		$(O)/obj/host/serve/%.o: $(O)/gen/%.c $(O)/flags
	$(call say,CC,$<)
	$(Q)$(compile) $(cflags) -MMD -MP -c -o $@ $<

# That around a timeline, likewise.
$(O)/gen/timeline_page.c: host/trace/timeline_page.html Makefile
	$(call say,GEN,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ printf '#include "host/trace/draw.h"\n\n'; \
		printf 'const char timeline_page[] =\n'; \
		sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/\t"&\\n"/' $<; \
		printf ';\n'; \
	} >$@

$(O)/obj/host/trace/timeline_page.o: $(O)/gen/timeline_page.c $(O)/flags
	$(call say,CC,$<)
	$(Q)$(compile) $(cflags) -MMD -MP -c -o $@ $<

# $(1) instruction set, $(2) where to, $(3) flags, $(4) the file that holds them
define isa_rule
$(2)/obj/%.$(1).o: %.c $(4)
	$$(call say,CC,$$< [$(1)])
	$$(Q)$$(compile) $(3) $(isa_flags_$(1)) -DKERN_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(isas),$(eval $(if $(filter $(i),$(plain_isas)), \
	$(call isa_rule,$(i),$(plain),$$(cflags_plain) $(isa_opt),$(plain)/flags), \
	$(call isa_rule,$(i),$(O),$$(cflags),$(O)/flags))))

# $(1) rooms, each before what it stands on; $(2) libraries; $(3) flags
link = $(Q)$(CC) $(ldflags) $(3) -o $@ $(filter %.o,$^) \
	$(foreach r,$(1),$(call lib,$(r))) \
	$(call pkg_libs,$(call libs_of,$(1)) $(2)) -lm

$(O)/tandem: $(call obj,host/tandem.c) \
		$(foreach r,$(deps_host),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,$(deps_host))

$(O)/tandem-npu: $(call obj,device/tandem_npu.c) \
		$(foreach r,$(deps_device),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,$(deps_device))

$(O)/tandem-stress: $(call obj,tests/stress/tandem_stress.c) \
		$(foreach r,$(deps_stress),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,$(deps_stress))

# ---- the library --------------------------------------------------------
# One object of a room and what it stands on, in which all names are local but
# for those that its public headers export; both libraries are made of it. The
# home of libtandem is not the executable's: see base/home.h.
tool = $(shell $(CC) -print-prog-name=$(1))

$(O)/obj/base/home-api.o: base/home.c $(O)/flags
	$(call say,CC,$< [library])
	$(Q)$(compile) $(cflags) -DTANDEM_LIBRARY -MMD -MP -c -o $@ $<

# $(1) rooms, $(2) options of objcopy
define public_object
	$(call say,LD,$@)
	$(Q)$(call tool,ld) -r -o $@ $(filter %.o,$^) \
		$(foreach r,$(1),$(call lib,$(r)))
	$(Q)$(call tool,objcopy) --localize-hidden $(2) $@
endef
$(O)/libtandem.o: $(obj_api) $(O)/obj/base/home-api.o \
		$(foreach r,$(deps_api),$(call lib,$(r)))
	$(call public_object,$(deps_api),--wildcard --localize-symbol='coherence_*')

$(O)/libtandem-coherence.o: $(obj_hexagon) $(obj_coherence) $(call lib,base)
	$(call public_object,base)

public := $(O)/libtandem $(O)/libtandem-coherence
$(public:%=%.a): %.a: %.o
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsD $@ $<

$(O)/libtandem.so.$(version): stands_on := $(deps_api)
$(O)/libtandem-coherence.so.$(version): stands_on := $(deps_hexagon)
$(public:%=%.so.$(version)): %.so.$(version): %.o
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -no-pie,$(ldflags)) -shared \
		-Wl,-soname,$(@F:%.$(version)=%.$(major)) -o $@ $< \
		$(call pkg_libs,$(call libs_of,$(stands_on))) -lm

$(public:%=%.so): %.so: %.so.$(version)
	$(Q)ln -sf $(<F) $@.$(major) && ln -sf $(@F).$(major) $@

# ---- tests --------------------------------------------------------------
# One program a room, $(O)/tests/test_ROOM, of tests/ROOM/test_*.c. It links
# what ROOM may include and nothing else, so a test cannot reach across a wall
# either. Tests of the host's rooms may also make files to work on (convert),
# and find phones and models (shipped).
tests_of = tests/$(patsubst tests/%,%,$(call folder_of,$(1)))
$(foreach r,$(rooms),$(eval test_deps_$(r) := \
	$(if $(filter $(r),$(inner)),convert shipped) $(deps_$(r))))
$(foreach r,$(rooms),$(eval test_src_$(r) := \
	$(wildcard $(call tests_of,$(r))/test_*.c)))
# The litmus tests: their text and model (of room base: the model cannot see the
# cache) and their runs on libtandem-coherence.
litmus := $(wildcard tests/litmus/*.c tests/shm/coherence/litmus_*.c)
test_src_coherence += $(litmus)
# The device inside the test process.
fake := tests/host/npu/fake_device.c tests/host/npu/fake_compute.c
$(foreach r,npu session method api,$(eval test_src_$(r) += $(fake)))
# This one defines functions of the session itself.
test_alone := tests/host/method/test_llada.c
test_src_method := $(filter-out $(test_alone),$(test_src_method))
tests := $(foreach r,$(rooms),$(if $(test_src_$(r)),$(O)/tests/test_$(r))) \
	$(O)/tests/test_llada

# measure_X.c beside them are programs that are run by hand.
measure_src := $(foreach r,$(rooms),\
	$(wildcard $(call tests_of,$(r))/measure_*.c))
measures    := $(patsubst tests/%.c,$(O)/tests/%,$(measure_src))
$(O)/tests/shm/coherence/measure_litmus: $(call obj,$(litmus))

# $(1) room, $(2) program, $(3) sources
define test_rule
obj_$(notdir $(2)) := $(call obj,$(3) tests/harness.c)
$(2): $$(obj_$(notdir $(2))) $(O)/lib$(notdir $(2)).list \
		$(foreach r,$(test_deps_$(1)),$(call lib,$(r)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(call link,$(test_deps_$(1)),cmocka)
endef
define measure_rule
$(O)/$(call tests_of,$(1))/measure_%: \
		$(tests_in)/obj/$(call tests_of,$(1))/measure_%.o \
		$(foreach r,$(test_deps_$(1)),$(call lib,$(r)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(call link,$(test_deps_$(1)))
endef
$(foreach r,$(rooms),$(eval \
	$(call test_rule,$(r),$(O)/tests/test_$(r),$(test_src_$(r)))))
$(eval $(call test_rule,method,$(O)/tests/test_llada,$(test_alone)))
$(foreach r,$(rooms),$(eval $(call measure_rule,$(r))))
.PRECIOUS: $(O)/obj/%.o $(tests_in)/obj/tests/%.o $(O)/lib%.list

# Never with a sanitizer: it is not under test, and starts processes faster.
$(O)/tests/runner: tests/runner.c tests/start.h $(O)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -g -O1 $(warnings) -o $@ $<

# Programs of docs/coherence.md, on libtandem-coherence.
demos := $(patsubst %.c,$(O)/%,$(wildcard docs/examples/coherence/*.c))
$(demos): $(O)/%: $(O)/obj/%.o $(foreach r,$(deps_hexagon),$(call lib,$(r)))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(call link,$(deps_hexagon))
# They include the headers by the names that are installed.
$(demos:$(O)/%=$(O)/obj/%.o): \
		private cflags += -Ishm/coherence -Ishm/coherence/hexagon

# The program with a method and a kind of drafter more, for tests/cli/echo.sh:
# what it takes is a file and a row of a table each, whose object is made anew.
echo_rows := method/methods draft/draft_kind
echo_src  := tests/host/method/echo_2/echo_2 tests/host/draft/echo/drafter_echo
echo_obj  := $(echo_rows:%=$(O)/obj/host/%.echo.o) $(echo_src:%=$(O)/obj/%.o)
$(O)/obj/host/%.echo.o: host/%.c $(O)/flags
	$(call say,CC,$< [echo])
	$(Q)$(compile) $(cflags) \
		-DMORE_METHODS_ROW='"tests/host/method/echo_2/echo_2_row.h"' \
		-DMORE_DRAFT_KINDS_ROW='"tests/host/draft/echo/drafter_echo_row.h"' \
		-MMD -MP -c -o $@ $<

$(O)/tests/tandem-echo: $(call obj,host/tandem.c) $(echo_obj) \
		$(foreach r,$(deps_host),$(call lib,$(r)))
	$(call say,LD,$@)
	$(call link,$(deps_host))

# tests/fuzz/fuzz_ROOM_X.c: libFuzzer with CC=clang FUZZER=1, else a corpus
# replayer and mutator (tests/fuzz/driver.c) with any compiler.
fuzz_src := $(wildcard tests/fuzz/fuzz_*.c)
fuzzers  := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(fuzz_src))
define fuzz_rule
$(O)/fuzz/fuzz_$(1)_%: $(tests_in)/obj/tests/fuzz/fuzz_$(1)_%.o \
		$(tests_in)/obj/tests/fuzz/driver.o \
		$(foreach r,$(deps_$(1)),$(call lib,$(r)))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(call link,$(deps_$(1)),$(if $(filter serve,$(1)),libmicrohttpd), \
		$(if $(FUZZER),-fsanitize=fuzzer))
endef
$(foreach r,$(rooms),$(eval $(call fuzz_rule,$(r))))
$(O)/fuzz/fuzz_npu_completion: $(call obj,$(fake))

# Loaded into a program, it fails the n-th allocation. A sanitizer has an
# allocator of its own, and no room for it.
oom := $(if $(SANITIZE),,$(O)/oom/oom.so $(O)/oom/victim)
$(O)/oom/oom.so: tests/oom/oom.c $(O)/flags
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(cflags) -fPIC -fvisibility=default -shared -o $@ $< -ldl
$(O)/oom/victim: $(call obj,tests/oom/victim.c)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ldflags) -o $@ $<

.PHONY: programs tests fuzzers extras demos test oom bench fuzz
programs: $(programs)
# tests/run looks at the time of this file.
tests: $(tests) $(O)/tests/runner
	$(Q)touch $(O)/tests/built
# The tests of one room, and what tests/run proves itself with.
$(rooms:%=test-program-%): test-program-%: $(O)/tests/test_% \
	$(O)/tests/test_base $(O)/tests/runner
fuzzers: $(fuzzers)
demos: $(demos)
# What command-line tests run beside the programs.
extras: $(measures) demos $(O)/tests/tandem-echo $(oom)

test: all tests fuzzers extras
	$(Q)tests/run -O $(O)

# Lines that the tests of the release build run, by room. Without the device's
# filter of system calls, which would keep it from writing what it counted.
.PHONY: coverage
coverage:
	$(Q)$(MAKE) O=build/coverage CFLAGS='--coverage -Wno-error' \
		LDFLAGS=--coverage all tests fuzzers extras
	$(Q)find build/coverage -name '*.gcda' -delete
	$(Q)TANDEM_NO_SECCOMP=1 tests/run -O build/coverage || :
	$(Q)tests/coverage build/coverage

# A quarter of an hour of two processors.
oom: all $(oom)
	$(Q)tests/oom/run -O $(O)
	$(Q)tests/oom/run -O $(O) --kind map
	$(Q)tests/oom/run -O $(O) --in device
	$(Q)tests/oom/run -O $(O) --in device --kind map

bench: all
	$(Q)$(O)/tandem bench ipc

# libFuzzer puts what it finds beside the build, not into the corpus.
FUZZ_RUNS ?= 100000
fuzz: fuzzers
	$(Q)for f in $(fuzzers); do \
		corpus=tests/fuzz/corpus/$${f##*/}; \
		if [ -n '$(FUZZER)' ]; then \
			found=$(O)/found/$${f##*/}; \
			mkdir -p $$found; \
			[ ! -d $$corpus ] || found="$$found $$corpus"; \
			$$f -runs=$(FUZZ_RUNS) -timeout=10 \
				-print_final_stats=1 \
				-artifact_prefix=$(O)/ $$found || exit 1; \
		else \
			$$f --corpus $$corpus --runs $(FUZZ_RUNS) || exit 1; \
		fi; \
	done

# ---- checks -------------------------------------------------------------
headers := $(wildcard $(foreach d,$(outer) tensor/soc shm/coherence shm/coherence/hexagon host/* tests tests/*,$(d)/*.h))
.PHONY: check-layers check-headers check-syntax format check-format dead
# What no program uses.
dead: all tests
	$(Q)scripts/dead-code $(O)

check-layers:
	$(Q)scripts/check-layers
	$(Q)scripts/check-docs

# Every header compiles alone. Where a header is what the source of its name
# includes first, compiling that source has shown it.
first_includes = $(shell awk 'FNR == 1 { seen = 0 } \
	!seen && /^.include/ { seen = 1; h = FILENAME; sub(/c$$/, "h", h); \
		if ($$2 == "\"" h "\"") print h }' $(wildcard $(headers:.h=.c)))
check-headers: $(if $(filter check-headers,$(MAKECMDGOALS)), \
	$(patsubst %.h,$(O)/obj/%.h.ok,$(filter-out $(first_includes),$(headers))))
$(O)/obj/%.h.ok: %.h $(O)/flags
	$(Q)mkdir -p $(@D)
	$(Q)printf '#include "%s"\nextern int check_header_;\n' $< | \
		$(CC) $(cflags) -MD -MP -MF $(@:.ok=.d) -MT $@ \
		-x c -fsyntax-only - && touch $@

# With CC=clang: warnings of all sources. A driver starts a compiler for each
# source, which takes clang longer than reading it, so the compiler is run as
# the driver would, with many sources at a time.
check-syntax:
	$(Q)cc1=$$($(CC) -### $(cflags) -fsyntax-only host/tandem.c 2>&1 | \
		sed -n '$$s/ "host.tandem.c"$$//p') && \
	find $(outer) host tests -name '*.c' $(kern_src:%=! -path %) \
		! -path 'tests/cli/*' | \
		xargs -n 100 -P $$(nproc) sh -c "$$cc1 \"\$$@\"" sh

formatted = $(shell find $(outer) host tests -name '*.[ch]')
format:
	$(Q)clang-format -i $(formatted)
check-format:
	$(Q)clang-format --dry-run -Werror $(formatted)

# ---- install ------------------------------------------------------------
.PHONY: install uninstall man clean help
# One page a command: tandem-run.1 of `tandem run`, by the names that their
# option tables have.
pages := tandem $(sort $(shell sed -n \
	's/^\t\.name = "\(tandem[- a-z]*\)",$$/\1/p' \
	host/cmd/cmd_*.c $(filter-out host/%,$(mains)) | tr ' ' -))
man: $(pages:%=$(O)/man/%.1)
$(O)/man/tandem.1: $(O)/tandem
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D) && $< help --man > $@
$(O)/man/tandem-npu.1 $(O)/man/tandem-stress.1: $(O)/man/%.1: $(O)/%
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D) && $< --man > $@
$(O)/man/tandem-%.1: $(O)/tandem
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D) && $< help --man $(subst -, ,$*) > $@
$(O)/tandem.bash: $(O)/tandem
	$(call say,GEN,$@)
	$(Q)$< help --completion > $@

# The .pc files find the prefix from where they lie, so that the installed tree
# may be moved.
incdir  := $(DESTDIR)$(PREFIX)/include
libdir  := $(DESTDIR)$(LIBDIR)
pcdir   := $(libdir)/pkgconfig
docdir  := $(DESTDIR)$(PREFIX)/share/doc/tandem
examples := $(wildcard docs/examples/complete.*) docs/examples/texts.c
# Documents lie as in the source, so that their links lead somewhere.
# $(call put,MODE,FILES)
tidy = test ! -d '$(docdir)' || find '$(docdir)' -depth -type d -empty -delete
put = for f in $(2); do install -D -m $(1) $$f '$(docdir)'/$$f || exit 1; done
.PHONY: install-library uninstall-library
hexagon_headers := $(wildcard shm/coherence/hexagon/*.h)
# $(1) library, $(2) its pkg-config file, $(3) rooms
put_library = install -m 644 $(O)/$(1).a $(O)/$(1).so.$(version) '$(libdir)' && \
	ln -sf $(1).so.$(version) '$(libdir)/$(1).so.$(major)' && \
	ln -sf $(1).so.$(major) '$(libdir)/$(1).so' && \
	sed -e 's|@version@|$(version)|' \
		-e 's|@libs@|$(call pkg_libs,$(call libs_of,$(3)))|' \
		-e "s|@up@|$$(realpath -ms --relative-to='$(LIBDIR)/pkgconfig' \
			'$(PREFIX)')|" $(2).in >'$(pcdir)/$(notdir $(2))'
install-library: $(public:%=%.a) $(public:%=%.so)
	install -d '$(incdir)/tandem-hexagon' '$(pcdir)'
	install -m 644 host/api/tandem.h shm/coherence/tandem_coherence.h \
		'$(incdir)'
	install -m 644 $(hexagon_headers) '$(incdir)/tandem-hexagon'
	$(call put_library,libtandem,host/api/tandem.pc,$(deps_api))
	$(call put_library,libtandem-coherence,shm/coherence/tandem-coherence.pc,$(deps_hexagon))
	$(call put,644,docs/library.md $(examples))

uninstall-library:
	rm -f '$(incdir)/tandem.h' '$(incdir)/tandem_coherence.h' \
		$(patsubst %,'$(incdir)/tandem-hexagon/%',$(notdir \
			$(hexagon_headers))) \
		'$(pcdir)/tandem.pc' '$(pcdir)/tandem-coherence.pc' \
		$(foreach l,$(notdir $(public)),$(patsubst %,'$(libdir)/$(l).%', \
			a so so.$(major) so.$(version))) \
		$(patsubst %,'$(docdir)/%',docs/library.md $(examples))
	@rmdir '$(incdir)/tandem-hexagon' 2>/dev/null || :
	@$(tidy)

bindir  := $(DESTDIR)$(PREFIX)/bin
unitdir := $(DESTDIR)$(PREFIX)/lib/systemd/user
busdir  := $(DESTDIR)$(PREFIX)/share/dbus-1
units   := tandem.service tandem-dbus.service
activation := dev.tandem.Engine1.service
man1dir := $(DESTDIR)$(PREFIX)/share/man/man1
compdir := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
datadir := $(DESTDIR)$(PREFIX)/share/tandem
models  := $(wildcard flash/models/*.gguf)
tasks   := $(wildcard flash/models/tasks/*.jsonl)
phones  := $(wildcard tensor/soc/*.soc)
docs    := README.md CHANGELOG.md CONTRIBUTING.md ipc/wire.h \
	   $(wildcard docs/*.md docs/*.svg docs/design/*.md docs/examples/*.* \
		docs/examples/*/*.* flash/models/README.md \
		flash/models/logs/*.svg) \
	   tests/litmus/README.md scripts/debian/README.md \
	   scripts/strace-story.awk
tools   := scripts/strace-pair scripts/stress-va
install: all man $(O)/tandem.bash install-library
	install -d '$(bindir)' '$(man1dir)' '$(compdir)' '$(unitdir)'
	install -m 755 $(programs) '$(bindir)'
	install -m 644 $(pages:%=$(O)/man/%.1) '$(man1dir)'
	install -m 644 $(O)/tandem.bash '$(compdir)/tandem'
	install -d '$(busdir)/services' '$(busdir)/interfaces'
	for unit in $(units); do sed 's|@bindir@|$(PREFIX)/bin|' \
		host/serve/$$unit.in >'$(unitdir)'/$$unit || exit 1; done
	sed 's|@bindir@|$(PREFIX)/bin|' host/serve/$(activation).in \
		>'$(busdir)/services/$(activation)'
	install -m 644 $(faces) '$(busdir)/interfaces'
	$(call put,644,$(docs))
	$(call put,755,$(tools))
	install -d '$(datadir)/models/tasks' '$(datadir)/soc'
	install -m 644 $(phones) '$(datadir)/soc'
	$(if $(models),install -m 644 $(models) '$(datadir)/models')
	$(if $(tasks),install -m 644 $(tasks) '$(datadir)/models/tasks')

uninstall: uninstall-library
	rm -f $(programs:$(O)/%='$(bindir)/%') '$(compdir)/tandem' \
		$(pages:%='$(man1dir)/%.1') $(units:%='$(unitdir)/%') \
		'$(busdir)/services/$(activation)' \
		$(patsubst host/serve/%,'$(busdir)/interfaces/%',$(faces)) \
		$(patsubst %,'$(docdir)/%',$(docs) $(tools)) \
		$(patsubst flash/%,'$(datadir)/%',$(models) $(tasks)) \
		$(patsubst tensor/%,'$(datadir)/%',$(phones))
	@rmdir '$(datadir)/models/tasks' '$(datadir)/models' '$(datadir)/soc' \
		'$(datadir)' 2>/dev/null || :
	@$(tidy)

clean:
	rm -rf build

# ---- a release ----------------------------------------------------------
# The tarball is the same bytes wherever it is made of a commit: git gives files
# the commit's time. A Debian package is built in what was unpacked of it, with
# scripts/debian as its debian/.
.PHONY: dist deb
release := tandem-$(version)
DIST    ?= build/dist
dist:
	$(call say,DIST,$(DIST)/$(release).tar.gz)
	$(Q)git diff --quiet HEAD -- || \
		echo 'make dist: what is not committed is not in it' >&2
	$(Q)mkdir -p '$(DIST)'
	$(Q)git -c tar.umask=0022 archive --prefix=$(release)/ \
		-o '$(DIST)/$(release).tar' HEAD
	$(Q)gzip -9nf '$(DIST)/$(release).tar'

unpacked := build/deb/$(release)
deb: dist
	$(Q)rm -rf build/deb && mkdir -p build/deb
	$(Q)cp '$(DIST)/$(release).tar.gz' \
		build/deb/tandem_$(version).orig.tar.gz
	$(Q)tar -xf build/deb/tandem_$(version).orig.tar.gz -C build/deb
	$(Q)cp -r $(unpacked)/scripts/debian $(unpacked)/debian
	$(Q)sed -e 's|@version@|$(version)|' \
		-e "s|@date@|$$(git log -1 --format=%cD)|" \
		$(unpacked)/debian/changelog.in >$(unpacked)/debian/changelog
	$(Q)cd $(unpacked) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		dpkg-buildpackage -us -uc
	$(Q)ls build/deb/*.deb

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

-include $(shell find $(O)/obj $(if $(SANITIZE),$(plain)/obj) -name '*.d' 2>/dev/null | sort -u)
