"""The weights of a GGUF file in float32: what a server computes from them is rounded as little as in transformers."""

from pathlib import Path


def write(source: Path, path: Path) -> None:
    """Write a GGUF file with the same weights, each dequantized, and the same tokenizer."""
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind, *parts = field.types
            value = gguf.LlamaFileType.ALL_F32 if name == "general.file_type" else field.contents()
            writer.add_key_value(name, value, kind, sub_type=parts[-1] if parts else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
