#include "spool/core/call_stack.h"

#include <execinfo.h>
#include <fmt/format.h>

#include <string_view>

#if SPOOL_WITH_LIBDW
#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#endif

namespace spool {

CallStack CallStack::here() {
  CallStack stack;
#if SPOOL_WITH_LIBDW
  void* addresses[33];
  const int n = backtrace(addresses, 33);
  if (n > 1) stack.addresses_.assign(addresses + 1, addresses + n);  // without this function
#endif
  return stack;
}

std::string to_string(const std::vector<CallStack::Frame>& frames, const std::string& what) {
  const std::string before = "\n  " + (what.empty() ? "" : what + " ");
  if (!has_source_lines()) return before + "at a line that is not known: this build of Spool is without libdw";
  if (frames.empty()) return before + "at a line that is not known";
  std::string text;
  for (const CallStack::Frame& f : frames) {
    text += text.empty() ? before : "\n  called ";
    text += f.line ? fmt::format("at {}:{}, in {}", f.file, f.line, f.function)
                   : fmt::format("in {} (build the program with -g to see the line)", f.function);
  }
  return text;
}

#if SPOOL_WITH_LIBDW
namespace {

// "spool::Tensor (anonymous namespace)::scaled<float>(spool::Tensor const&)": "scaled<float>".
std::string readable(const char* linker_name) {
  const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(linker_name, nullptr, nullptr, nullptr),
                                                              &std::free);
  if (!demangled) return linker_name;
  std::string name = demangled.get();
  constexpr std::string_view anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = name.find(anonymous)) != std::string::npos;) name.erase(at, anonymous.size());
  // The parameters are the last group of parentheses, behind which only "const" and the like may stand.
  std::size_t end = name.rfind(')');
  if (end == std::string::npos) return name;
  for (int depth = 0;; --end) {
    depth += (name[end] == ')') - (name[end] == '(');
    if (depth == 0 || end == 0) break;
  }
  name.resize(end);
  for (const std::string_view lambda : {"::{lambda(", "::$_"})  // GCC's and Clang's
    if (const std::size_t at = name.rfind(lambda); at != std::string::npos && name.find("::operator()", at) != std::string::npos)
      return name.substr(0, at) + "::lambda";
  if (name.find("operator ") != std::string::npos) return name;
  // What a template returns comes first.
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    depth += (name[i] == '>' || name[i] == ')' || name[i] == '}') - (name[i] == '<' || name[i] == '(' || name[i] == '{');
    if (name[i] == ' ' && depth == 0) return name.substr(i + 1);
  }
  return name;
}

// Of "_ZNK5spool6Tensor3logEv".
bool is_library_symbol(std::string_view linker_name) {
  if (!linker_name.starts_with("_Z")) return false;
  std::string_view s = linker_name.substr(2);
  while (s.starts_with('Z')) s.remove_prefix(1);  // a lambda or class inside of a function
  if (s.starts_with('N')) s = s.substr(std::min(s.find_first_not_of("KVRO", 1), s.size()));
  return s.starts_with("5spool") || s.starts_with("St") || s.starts_with("9__gnu_cxx");
}

// The name of a function that the compiler has put into another one.
std::string name_of_inlined(Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  const auto text = [&](Dwarf_Die& d, unsigned what) { return dwarf_formstring(dwarf_attr_integrate(&d, what, &attribute)); };
  if (const char* linker_name = text(die, DW_AT_linkage_name)) return readable(linker_name);
  // Functions of one file have no name for the linker: theirs is put together from where they were declared.
  Dwarf_Die declared = die;
  for (const unsigned from : {DW_AT_abstract_origin, DW_AT_specification})
    while (dwarf_attr(&declared, from, &attribute) && dwarf_formref_die(&attribute, &declared)) {
    }
  std::string name;
  Dwarf_Die* scopes = nullptr;
  const int n = dwarf_getscopes_die(&declared, &scopes);
  for (int i = 0; i < n; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_subprogram && tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type) continue;
    const char* part = text(scopes[i], DW_AT_name);  // an anonymous namespace and a lambda have none
    if (part) name = name.empty() ? part : part + ("::" + name);
  }
  std::free(scopes);
  return name;
}

struct Function {
  std::string name;
  std::string path;  // of the source file, empty where it is not known
  int line;
  bool library;
};

// What the program and its libraries say about addresses.
class Symbols {
 public:
  Symbols() : dwfl_(dwfl_begin(&callbacks)) {
    if (!dwfl_) return;
    dwfl_report_begin(dwfl_);
    dwfl_linux_proc_report(dwfl_, getpid());
    dwfl_report_end(dwfl_, nullptr, nullptr);
    // Where Spool's own sources lie is known where it was built with -g itself; else it has no lines to tell apart.
    const Unit self = unit_at(reinterpret_cast<Dwarf_Addr>(&CallStack::here));
    root_ = source_of(self).path;
    constexpr std::string_view here = "core/call_stack.cpp";
    root_.resize(root_.ends_with(here) ? root_.size() - here.size() : 0);
  }
  ~Symbols() {
    if (dwfl_) dwfl_end(dwfl_);
  }
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // The functions at a return address, innermost first: several where the compiler has put one into the other.
  std::vector<Function> at(void* return_address) const {
    const Dwarf_Addr address = reinterpret_cast<Dwarf_Addr>(return_address) - 1;  // inside of the call
    const Unit unit = unit_at(address);
    const char* linker_name = unit.module ? dwfl_module_addrname(unit.module, address) : nullptr;
    if (!linker_name) return {};
    std::vector<Function> all;
    Source source = source_of(unit);
    Dwarf_Die* scopes = nullptr;
    if (unit.die && dwarf_getscopes(unit.die, unit.address, &scopes) > 0) {
      // Around a function that was put into another, this list has the scopes in which it was written; those into which it was put are these:
      Dwarf_Die innermost = *scopes;
      std::free(scopes);
      scopes = nullptr;
      const int n = dwarf_getscopes_die(&innermost, &scopes);
      for (int i = 0; i < n && dwarf_tag(&scopes[i]) != DW_TAG_subprogram; ++i) {
        if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine) continue;
        all.push_back({name_of_inlined(scopes[i]), source.path, source.line, is_library_source(source.path)});
        source = call_of(unit, scopes[i]);
      }
    }
    std::free(scopes);
    all.push_back({readable(linker_name), source.path, source.line, is_library_symbol(linker_name)});
    return all;
  }

 private:
  // Of source files: one becomes code with all that it includes.
  struct Unit {
    Dwfl_Module* module = nullptr;
    Dwarf_Die* die = nullptr;  // null where there is no debug information
    Dwarf_Addr address = 0;    // as the die counts
  };
  struct Source {
    std::string path;
    int line = 0;
  };

  Unit unit_at(Dwarf_Addr address) const {
    Unit u;
    u.module = dwfl_ ? dwfl_addrmodule(dwfl_, address) : nullptr;
    if (!u.module) return u;
    // One after the other, since Clang writes no table of addresses.
    Dwarf_Addr bias = 0;
    do u.die = dwfl_module_nextcu(u.module, u.die, &bias);
    while (u.die && dwarf_haspc(u.die, address - bias) != 1);
    u.address = address - bias;
    return u;
  }

  static Source source_of(const Unit& unit) {
    Dwarf_Line* line = unit.die ? dwarf_getsrc_die(unit.die, unit.address) : nullptr;
    const char* path = line ? dwarf_linesrc(line, nullptr, nullptr) : nullptr;
    Source s;
    if (path && dwarf_lineno(line, &s.line) == 0) s.path = path;
    return s;
  }

  // Where a function was called that the compiler has put there.
  static Source call_of(const Unit& unit, Dwarf_Die& inlined) {
    Dwarf_Files* files = nullptr;
    std::size_t count = 0;
    Dwarf_Attribute attribute;
    Dwarf_Word file = 0, line = 0;
    if (dwarf_getsrcfiles(unit.die, &files, &count) != 0 ||
        dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attribute), &file) != 0 ||
        dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attribute), &line) != 0)
      return {};
    const char* path = dwarf_filesrc(files, file, nullptr, nullptr);
    return path ? Source{path, static_cast<int>(line)} : Source{};
  }

  bool is_library_source(std::string_view path) const {
    if (path.find("include/spool/") != path.npos || path.find("include/c++/") != path.npos) return true;
    if (root_.empty() || !path.starts_with(root_)) return false;
    path.remove_prefix(root_.size());
    constexpr std::string_view folders[] = {"core/", "kernels/", "autograd/", "layers/", "optim/", "data/", "train/"};
    return std::any_of(std::begin(folders), std::end(folders), [&](std::string_view f) { return path.starts_with(f); });
  }

  static const Dwfl_Callbacks callbacks;
  Dwfl* dwfl_;
  std::string root_;
};

// Only what the program's own files hold is read: to look elsewhere could mean a download.
const Dwfl_Callbacks Symbols::callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                           .find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*,
                                                                const char*, GElf_Word, char**) { return -1; },
                                           .section_address = nullptr,
                                           .debuginfo_path = nullptr};

}  // namespace

std::vector<CallStack::Frame> CallStack::frames(std::size_t most) const {
  std::vector<Frame> result;
  if (empty() || most == 0) return result;
  const Symbols symbols;
  for (void* address : addresses_)
    for (const Function& f : symbols.at(address)) {
      if (!f.library && (result.empty() || f.line)) result.push_back({f.name, f.path.substr(f.path.rfind('/') + 1), f.line});
      if (result.size() == most || f.name == "main") return result;
    }
  return result;
}

bool has_source_lines() { return true; }
#else
std::vector<CallStack::Frame> CallStack::frames(std::size_t) const { return {}; }

bool has_source_lines() { return false; }
#endif

}  // namespace spool
