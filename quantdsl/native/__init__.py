"""Host functions written from typed programs: what front ends call to make functions of scalars and structs, optionals, enums and
containers of fixed capacity in HIR. It knows no language; `compiler/backends/native` compiles what it makes."""
